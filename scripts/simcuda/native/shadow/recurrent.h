// cuDNN's recurrent networks by the CPU's operators.
#pragma once
#include <ATen/core/stack.h>

namespace shadow {
void cudnn_rnn(torch::jit::Stack& stack);
void cudnn_rnn_backward(torch::jit::Stack& stack);
}  // namespace shadow
