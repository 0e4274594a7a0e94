#include "stackable/rocks_families.h"

#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>

namespace isotherm {

namespace {

using Status = rocksdb::Status;
using Slice = rocksdb::Slice;

}  // namespace

// Collects the changes that fit; without `fitting` it ends at the first that does not, with why.
class RocksFamilies::Reader final : public rocksdb::WriteBatch::Handler {
 public:
  Reader(const std::map<uint32_t, Family>& families, rocksdb::WriteBatch* fitting)
      : families_(families), fitting_(fitting) {}

  Status PutCF(uint32_t number, const Slice& key, const Slice& value) override {
    return add(number, is_there(number), [&](auto* its) { return fitting_->Put(its, key, value); });
  }
  Status DeleteCF(uint32_t number, const Slice& key) override {
    return add(number, is_there(number), [&](auto* its) { return fitting_->Delete(its, key); });
  }
  Status SingleDeleteCF(uint32_t number, const Slice& key) override {
    return add(number, is_there(number),
               [&](auto* its) { return fitting_->SingleDelete(its, key); });
  }
  Status MergeCF(uint32_t number, const Slice& key, const Slice& value) override {
    Status wrong = is_there(number);
    if (wrong.ok() && !families_.at(number).merges) {
      wrong = Status::InvalidArgument("a merge in a column family that has no merge_operator");
    }
    return add(number, wrong, [&](auto* its) { return fitting_->Merge(its, key, value); });
  }
  Status DeleteRangeCF(uint32_t number, const Slice& first, const Slice& end) override {
    Status wrong = is_there(number);
    if (wrong.ok() && !families_.at(number).erases_ranges) {
      wrong = Status::NotSupported("DeleteRange in a column family whose table has none");
    }
    if (wrong.ok() && families_.at(number).order->Compare(first, end) > 0) {
      wrong = Status::InvalidArgument("end key comes before start key");
    }
    return add(number, wrong, [&](auto* its) { return fitting_->DeleteRange(its, first, end); });
  }
  void LogData(const Slice& blob) override {
    if (fitting_ != nullptr) fitting_->PutLogData(blob);
  }

 private:
  Status is_there(uint32_t number) const {
    if (families_.contains(number)) return Status::OK();
    return Status::InvalidArgument("Invalid column family specified in write batch");
  }
  template <class Add>
  Status add(uint32_t number, const Status& wrong, Add&& add_to) {
    if (fitting_ == nullptr) return wrong;
    if (!wrong.ok()) return Status::OK();
    NumberedFamily its(number);
    return add_to(&its);
  }

  const std::map<uint32_t, Family>& families_;
  rocksdb::WriteBatch* const fitting_;
};

void RocksFamilies::add(rocksdb::ColumnFamilyHandle& family) {
  rocksdb::ColumnFamilyDescriptor its;
  const bool known = family.GetDescriptor(&its).ok();
  all_[family.GetID()] = {
      .merges = !known || its.options.merge_operator != nullptr,
      .erases_ranges = !known || its.options.table_factory->IsDeleteRangeSupported(),
      .order = family.GetComparator()};
}

Status RocksFamilies::check(const rocksdb::WriteBatch& batch) const {
  Reader reader(all_, nullptr);
  return batch.Iterate(&reader);
}

rocksdb::WriteBatch RocksFamilies::fit_part(const rocksdb::WriteBatch& batch) const {
  rocksdb::WriteBatch fitting;
  Reader reader(all_, &fitting);
  static_cast<void>(batch.Iterate(&reader));
  return fitting;
}

}  // namespace isotherm
