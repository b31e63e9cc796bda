// Stands in for fmt, which Kineto's installed headers include and no wheel of PyTorch brings. They name one function of it,
// in a template that the layer does not use; it has no definition, so using it does not link.
#pragma once

#include <string>

namespace fmt {
template <typename... Values>
std::string format(const char* text, const Values&... values);
} // namespace fmt
