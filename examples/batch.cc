// Batches: many requests in one call, run together, so that the memory's latency is hidden.
#include <isotherm/store.h>

#include <iostream>
#include <string>
#include <vector>

int main() {
  isotherm::Store store;
  isotherm::Handle handle(store);

  // A batch borrows keys and values: they stay here until it is cleared.
  constexpr uint32_t count = 1000;
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < count; ++i) keys.push_back("key:" + std::to_string(i));

  isotherm::Batch batch;
  for (const std::string& key : keys) batch.put(key, key);
  handle.submit(batch);
  batch.clear();

  // Requests on one key take effect in row order, also among others in the same batch.
  const isotherm::Batch::Row before = batch.get("key:7");
  const isotherm::Batch::Row swapped = batch.put("key:7", "new", isotherm::option::want_previous);
  const isotherm::Batch::Row after = batch.get("key:7");
  const isotherm::Batch::Row absent = batch.get("key:none");
  handle.submit(batch);
  // Replies point into the store until the batch is cleared; nothing was copied.
  std::cout << "before: " << batch.reply(before).value() << "\n"
            << "replaced: " << batch.reply(swapped).value() << "\n"
            << "after: " << batch.reply(after).value() << "\n"
            << "absent: " << to_string(batch.reply(absent).status) << "\n";
  const bool right = batch.reply(before).value() == "key:7" &&
                     batch.reply(swapped).value() == "key:7" &&
                     batch.reply(after).value() == "new" &&
                     batch.reply(absent).status == isotherm::Status::not_found;
  batch.clear();
  return right && store.size() == count ? 0 : 1;
}
