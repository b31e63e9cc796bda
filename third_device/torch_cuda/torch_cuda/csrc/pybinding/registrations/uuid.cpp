// A GPU's UUID as text, which upstream's bindings ask for. Up to 2.8 they have the function themselves; from 2.9 on the core
// has it (torch/csrc/utils.h), and 2.15's libtorch_python does not export it. Weak: where anybody else has it, that is called.
#include <string>

std::string uuid_to_string(const char* uuid_bytes);

__attribute__((weak)) std::string uuid_to_string(const char* uuid_bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (int index = 0; index < 16; ++index) {
    if (index == 4 || index == 6 || index == 8 || index == 10) {
      text += '-';
    }
    const auto byte = static_cast<unsigned char>(uuid_bytes[index]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}
