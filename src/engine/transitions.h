// The queue pair's state machine as data: which transitions exist per transport and which
// attributes each requires and allows. IBA 11.2.5.2; spec crib 8. tests/unit prints every pair.
#pragma once

#include "engine/verbs.h"

namespace verbena::engine {

struct Transition {
  bool allowed = false;
  uint32_t required = 0;  // QpAttrMask bits, without kAttrState
  uint32_t optional = 0;
};

// Whether a queue pair of this type may go from one state to another, and with which attributes
// besides IBV_QP_STATE. {} (not allowed) for every pair the table does not list; RESET is allowed
// from everywhere, ERR from everywhere but RESET.
Transition transition(QpType type, QpState from, QpState to);

// The attribute's name as in enum ibv_qp_attr_mask, for the lowest bit of `mask`.
const char* attribute_name(uint32_t mask);

}  // namespace verbena::engine
