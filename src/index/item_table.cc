#include "index/item_table.h"

#include <algorithm>
#include <cstring>

namespace isotherm {
namespace {

// A node lies in a chunk, so it is no larger than the largest size class.
constexpr uint64_t max_members = (size_classes::largest - CollisionNode::bytes(0)) / 8;

CollisionNode* node_at(const ItemStore& items, Location root) {
  return reinterpret_cast<CollisionNode*>(items.address(root));
}

}  // namespace

Member resolve_collision(const ItemStore& items, Location root, std::string_view key) {
  const CollisionNode* node = node_at(items, root);
  for (uint64_t i = 0; i < node->count; ++i) {
    Item* item = items.item(node->members[i]);
    if (item->key() == key) return {node->members[i], item};
  }
  return {};
}

Composed compose(ItemStore& items, ItemStore::Cache& cache, Location root, Location from,
                 Location to) {
  const bool is_node = location::kind(root) == location::Kind::collision;
  if (!is_node && root == from) return {to};
  if (!is_node && to == location::none) return {root};
  const uint64_t single[1] = {root};
  const uint64_t* members = is_node ? node_at(items, root)->members : single;
  const uint64_t count = is_node ? node_at(items, root)->count : 1;

  const uint64_t kept = count - (from != location::none ? 1 : 0);
  const uint64_t total = kept + (to != location::none ? 1 : 0);
  if (total == 1 && to == location::none) {
    return {members[0] != from ? members[0] : members[1]};
  }
  if (total > max_members) return {location::none, false};
  const Location place = cache.allocate(CollisionNode::bytes(total), true);
  if (place == location::none) return {location::none, false};
  auto* node = reinterpret_cast<CollisionNode*>(items.address(place));
  uint64_t* end = std::copy_if(members, members + count, node->members,
                               [&](uint64_t member) { return member != from; });
  if (to != location::none) *end++ = to;
  node->count = static_cast<uint64_t>(end - node->members);
  return {location::as(location::Kind::collision, place)};
}

}  // namespace isotherm
