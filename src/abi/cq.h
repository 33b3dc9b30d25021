// Creation shared by ibv_create_cq() and ibv_create_cq_ex().
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

struct CqSpec {
  uint64_t entries = 0;
  void* user_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  uint32_t vector = 0;
};

// null and errno: EINVAL (entries, vector, channel of another context), ENOMEM (max_cq).
Cq* make_cq(const char* call, ibv_context* context, const CqSpec& spec);

}  // namespace verbena::abi
