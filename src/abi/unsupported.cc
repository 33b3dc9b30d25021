// Verbs this device does not offer. Left null they would fail in the headers' inline functions
// with the same EOPNOTSUPP, but the explain log could not say why.
#include "abi/errors.h"
#include "abi/operations.h"

namespace verbena::abi {
namespace {

constexpr const char* kNoFlows =
    "flows steer raw packets, and raw packet queue pairs are not offered";
constexpr const char* kNoWorkQueues =
    "receive work queues and their tables (RSS) serve raw packet queue pairs, which are not "
    "offered";
constexpr const char* kNoCounters =
    "counter objects attach to flows; `verbena stats` and the counters in sysfs need none";

int lacks(const char* call, const char* why) {
  return shielded([&] { return refuse(EOPNOTSUPP, "{}: not supported: {}", call, why); });
}

template <typename T>
T* lacks_object(const char* call, const char* why) {
  errno = lacks(call, why);
  return nullptr;
}

}  // namespace

void fill_unsupported(verbs_context& verbs) {
  verbs.modify_cq = [](ibv_cq*, ibv_modify_cq_attr*) {
    return lacks("ibv_modify_cq", "completion events are not moderated, each is delivered at once");
  };
  verbs.create_wq = [](ibv_context*, ibv_wq_init_attr*) {
    return lacks_object<ibv_wq>("ibv_create_wq", kNoWorkQueues);
  };
  verbs.create_rwq_ind_table = [](ibv_context*, ibv_rwq_ind_table_init_attr*) {
    return lacks_object<ibv_rwq_ind_table>("ibv_create_rwq_ind_table", kNoWorkQueues);
  };
  verbs.ibv_create_flow = [](ibv_qp*, ibv_flow_attr*) {
    return lacks_object<ibv_flow>("ibv_create_flow", kNoFlows);
  };
  verbs.create_flow_action_esp = [](ibv_context*, ibv_flow_action_esp_attr*) {
    return lacks_object<ibv_flow_action>("ibv_create_flow_action_esp", kNoFlows);
  };
  verbs.create_counters = [](ibv_context*, ibv_counters_init_attr*) {
    return lacks_object<ibv_counters>("ibv_create_counters", kNoCounters);
  };
  verbs.modify_qp_rate_limit = [](ibv_qp*, ibv_qp_rate_limit_attr*) {
    return lacks("ibv_modify_qp_rate_limit", "packet pacing is not offered");
  };
  verbs.post_srq_ops = [](ibv_srq*, ibv_ops_wr* op, ibv_ops_wr** bad) {
    *bad = op;
    return lacks("ibv_post_srq_ops", "tag matching is not offered");
  };
}

}  // namespace verbena::abi

using namespace verbena::abi;

extern "C" {

// Enhanced connection establishment is a vendor's private hand-shake; we have none.
int ibv_query_ece(ibv_qp*, ibv_ece*) {
  return lacks("ibv_query_ece", "enhanced connection establishment is a vendor's private option");
}
int ibv_set_ece(ibv_qp*, ibv_ece*) {
  return lacks("ibv_set_ece", "enhanced connection establishment is a vendor's private option");
}

}  // extern "C"
