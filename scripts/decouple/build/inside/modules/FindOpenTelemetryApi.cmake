# Upstream makes a target of OpenTelemetry's headers, which no file of the CPU build includes; an empty folder does.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/no-opentelemetry")
set(OpenTelemetryApi_INCLUDE_DIRS "${CMAKE_BINARY_DIR}/no-opentelemetry")
set(OpenTelemetryApi_FOUND TRUE)
