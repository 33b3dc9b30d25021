// Making, moving and ending ids, and their options.
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <new>

#include "rdmacm/id.h"
#include "rdmacm/wall.h"

namespace verbena::rdmacm {
namespace {

uint32_t random_psn() {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value) value = 0x5eed;
  return value & 0xffffff;
}

bool known_space(rdma_port_space space) {
  switch (space) {
    case RDMA_PS_IPOIB:
    case RDMA_PS_TCP:
    case RDMA_PS_UDP:
    case RDMA_PS_IB:
      return true;
  }
  return false;
}

// A channel of the id's own, which makes it synchronous. 0 or errno.
int own_channel(Id& id) {
  auto channel = std::make_unique<Channel>();
  if (int error = open_channel(*channel); error != 0) return error;
  id.channel = channel.get();
  id.own_channel = std::move(channel);
  return 0;
}

void drop_own_channel(Id& id) {
  if (!id.own_channel) return;
  id.channel = nullptr;
  rdma_destroy_event_channel(id.own_channel.release());
}

void end(Id& id);

void end_children(const std::vector<Id*>& children) {
  for (Id* child : children) end(*child);
}

// Destroys the id; nothing of the program refers to it but events not yet acknowledged.
void end(Id& id) {
  leave_all_groups(id);
  release(id);
  if (id.event != nullptr) {
    rdma_ack_cm_event(id.event);
    id.event = nullptr;
  }
  std::vector<Id*> children;
  {
    Lock lock(library());
    children = forget_events(id);
  }
  end_children(children);
  await_acknowledgements(id);
  drop_own_channel(id);
  delete &id;
}

int migrate(Id& id, rdma_event_channel* target) {
  std::unique_ptr<Channel> fresh;
  if (target == nullptr) {
    fresh = std::make_unique<Channel>();
    if (int error = open_channel(*fresh); error != 0) return refuse(error);
    target = fresh.get();
  }
  if (id.event != nullptr) {
    rdma_ack_cm_event(id.event);
    id.event = nullptr;
  }
  await_acknowledgements(id);
  std::unique_ptr<Channel> former;
  {
    Lock lock(library());
    move_events(id, *static_cast<Channel*>(target));
    id.channel = target;
    former = std::move(id.own_channel);
    id.own_channel = std::move(fresh);
  }
  if (former) rdma_destroy_event_channel(former.release());
  return 0;
}

int set_id_option(Id& id, int option, const void* value, size_t length) {
  constexpr const char* kCall = "rdma_set_option";
  const bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (length != (is_byte ? sizeof(uint8_t) : sizeof(int)))
    return refuse(EINVAL, kCall, "the value has another size than this option's");
  int number = 0;
  memcpy(&number, value, length);
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      id.tos = static_cast<uint8_t>(number);
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (id.stage != Stage::kIdle)
        return refuse(EINVAL, kCall, "RDMA_OPTION_ID_REUSEADDR comes before rdma_bind_addr");
      id.reuse = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (id.stage != Stage::kIdle)
        return refuse(EINVAL, kCall, "RDMA_OPTION_ID_AFONLY comes before rdma_bind_addr");
      id.one_family = number != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (id.datagram()) return refuse(EINVAL, kCall, "datagrams have no acknowledgement time-out");
      if (number > 31)
        return refuse(EINVAL, kCall, "the acknowledgement time-out has 5 bits (4.096 us * 2^n)");
      id.ack_timeout = static_cast<uint8_t>(number);
      return 0;
    default:
      break;
  }
  return refuse(ENOSYS, kCall, "no such option");
}

}  // namespace

Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space,
            ibv_qp_type qp_type) {
  Id* id = make_bare_id(context, space, qp_type);
  if (id == nullptr) return nullptr;
  id->channel = channel;
  if (channel != nullptr) return id;
  if (int error = own_channel(*id); error != 0) {
    delete id;
    errno = error;
    return nullptr;
  }
  return id;
}

Id* make_bare_id(void* context, rdma_port_space space, ibv_qp_type qp_type) {
  auto* id = new (std::nothrow) Id{};
  if (id == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  id->context = context;
  id->ps = space;
  id->qp_type = qp_type;
  id->generation = generation();
  // Now already: a program with a queue pair of its own asks for it before it accepts.
  id->psn = random_psn();
  return id;
}

void discard(Id& id) {
  end(id);
}

void release(Id& id) {
  if (id.generation != generation()) return;  // the parent's
  {
    Lock lock(library());
    if (id.connection.index != 0) leave(id.connection);
    if (id.binding) leave(id.binding->listener);
  }
  if (id.binding) port().release(*id.binding);
  if (id.connection.index != 0) port().destroy(id.connection);
  id.binding.reset();
  id.connection = {};
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                   rdma_port_space space) {
  return shielded([&] {
    if (id == nullptr) return refuse_null("rdma_create_id");
    if (!known_space(space)) return refuse(EINVAL, "rdma_create_id", "unknown port space");
    if (auto opened = port().open(); !opened) return refuse("rdma_create_id", opened.error());
    const bool datagram = space == RDMA_PS_UDP || space == RDMA_PS_IPOIB;
    *id = make_id(channel, context, space, datagram ? IBV_QPT_UD : IBV_QPT_RC);
    return *id == nullptr ? -1 : 0;
  });
}

int rdma_destroy_id(rdma_cm_id* id) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] {
    end(*of(id));
    return 0;
  });
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  if (id == nullptr) return refuse_null(__func__);
  return shielded([&] { return migrate(*of(id), channel); });
}

int rdma_set_option(rdma_cm_id* id, int level, int option, void* value, size_t length) {
  if (id == nullptr || value == nullptr) return refuse_null(__func__);
  return shielded([&] {
    if (level == RDMA_OPTION_ID) return set_id_option(*of(id), option, value, length);
    if (level == RDMA_OPTION_IB)
      return refuse(EOPNOTSUPP, "rdma_set_option",
                    "path records cannot be given: rdma_resolve_route makes them");
    return refuse(ENOSYS, "rdma_set_option", "no such level");
  });
}

uint16_t rdma_get_src_port(rdma_cm_id* id) {
  return length_of(&id->route.addr.src_addr) ? id->route.addr.src_sin.sin_port : uint16_t{0};
}

uint16_t rdma_get_dst_port(rdma_cm_id* id) {
  return length_of(&id->route.addr.dst_addr) ? id->route.addr.dst_sin.sin_port : uint16_t{0};
}
}
