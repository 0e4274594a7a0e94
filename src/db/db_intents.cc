#include "db/db_intents.h"

#include "db/db_state.h"
#include "db/statuses.h"

namespace isotherm {
namespace {

std::string_view key_of(const uint32_t& slot) {
  return {reinterpret_cast<const char*>(&slot), sizeof slot};
}

}  // namespace

DbStatus DbIntents::write(const WriteGroup& group, uint32_t slot, std::string_view intent) {
  return guarded([&] {
    WriteGroup intents;
    intents.put(key_of(slot), intent);
    return db_.state_->write(group, intents);
  });
}

DbStatus DbIntents::read(uint32_t slot, std::string& intent) {
  return guarded([&] { return db_.state_->read(key_of(slot), intent, nullptr, intents_database); });
}

DbStatus DbIntents::erase(uint32_t end) {
  return guarded([&] {
    WriteGroup intents;
    for (uint32_t slot = 0; slot < end; ++slot) intents.erase(key_of(slot));
    return db_.state_->write({}, intents);
  });
}

}  // namespace isotherm
