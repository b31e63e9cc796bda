"""The build room: environments (host or Debian root), the two stages, wheels and their manifests."""
