// SONiC's CONFIG_DB as JSON (/etc/sonic/config_db.json, `sonic-cfggen -d --print-data`): the QoS
// and buffer tables by name, with references written either way ("[BUFFER_POOL|egress]" or
// "egress") and keys for several ports or queues at once ("Ethernet0,Ethernet4|3-4").
#pragma once

#include "scenario/import.h"

namespace verbena::scenario {

// Text that is not JSON, or not an object of tables, is one error.
Imported import_sonic(std::string_view text, const ImportDefaults& defaults);

}  // namespace verbena::scenario
