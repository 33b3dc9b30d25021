// The one symbol that our librdmacm.so.1 takes from this library beyond the public verbs: both have
// to drive the same engine.
#include "host/cm_port.h"

extern "C" verbena::host::CmPort* verbena_rdmacm_port() {
  return &verbena::host::cm_port();
}
