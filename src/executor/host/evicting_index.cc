#include "executor/host/evicting_index.h"

#include "executor/host/member_swap.h"

namespace isotherm {

bool Eviction::is_held(uint64_t hash) {
  const KeyGate& gate = executor_.store().gate;
  const HostExecutor::Gated& gated = executor_.gated();
  if (gated.slot == nullptr) return gate.is_held(hash, database_);
  if (!works_) EpochDomain::work(*gated.slot);
  works_ = true;
  // Who took the key before this look is seen; who takes it later waits until this thread rests.
  static_cast<void>(gate.takes());
  return gate.held(*gated.holder, hash, database_) != nullptr;
}

bool Eviction::begin(uint64_t hash, Location root, CacheIndex::Group& versions) {
  if (is_held(hash)) return false;
  HostStore& store = executor_.store();
  // Several items go together, of which a hook might let one go and keep another.
  bool stays = store.demotion != nullptr && location::kind(root) == location::Kind::collision;
  for_each_member(store.items, root, [&](Location member) {
    if (stays) return;
    const ItemMove move{member, location::none, MoveReason::evicted};
    const Item& item = *store.items.item(member);
    const DemotionHook::Fate fate = fate_of(store, move, item);
    stays = fate == DemotionHook::Fate::kept;
    const uint64_t version = versions.next_version();
    if (fate == DemotionHook::Fate::dropped) tell_of_end(store, move, item, hash, version);
  });
  if (stays) return false;
  root_ = root;
  return true;
}

void Eviction::rest() {
  if (works_) EpochDomain::rest(*executor_.gated().slot);
}

void Eviction::end() {
  HostStore& store = executor_.store();
  for_each_member(store.items, root_, [&](Location member) {
    executor_.settle_evicted(store.databases[database_], {member, store.items.item(member)});
  });
  retire_root(executor_.cache(), root_);
}

}  // namespace isotherm
