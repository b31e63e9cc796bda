// Attention by its formula: what the flash, the memory-efficient and cuDNN's kernels compute.
#pragma once
#include <ATen/core/stack.h>

namespace shadow {

void flash_attention(torch::jit::Stack&);
void flash_attention_backward(torch::jit::Stack&);
void efficient_attention(torch::jit::Stack&);
void efficient_attention_backward(torch::jit::Stack&);
void flash_attention_packed(torch::jit::Stack&);
void flash_attention_packed_backward(torch::jit::Stack&);
void efficient_attention_packed(torch::jit::Stack&);
void efficient_attention_packed_backward(torch::jit::Stack&);
void cudnn_attention(torch::jit::Stack&);
void cudnn_attention_backward(torch::jit::Stack&);
void fill_dropout_mask(torch::jit::Stack&);

}  // namespace shadow
