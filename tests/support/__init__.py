"""What tests share: real servers, real archives, real repositories; no mocks."""
