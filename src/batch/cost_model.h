// CostModel: the line fixed + row × rows through measured times of batches, by least squares.
//
// Each sample counts `keep` times as much as the one after it, since costs change and the first
// batches of a program take long. Sums are kept about the first sample, so that they stay small
// beside their differences. A time does not fall with the rows and is not negative: a fit with such
// times is replaced by the best one without (a level line, or a line through zero).
//
// Threads. One at a time. Limits. Batches of one size say nothing about the slope, which is then 0.
// Sources. Mega-KV, section 5.2, fits its times likewise.
#pragma once

#include <cstdint>

#include "isotherm/scheduling.h"

namespace isotherm {

class CostModel {
 public:
  // 1: all samples count the same.
  explicit CostModel(double keep = 1) : keep_(keep) {}

  void add(uint64_t rows, double took_ns) {
    if (weight_ == 0) {
      first_rows_ = static_cast<double>(rows);
      first_took_ = took_ns;
    }
    const double x = static_cast<double>(rows) - first_rows_;
    const double y = took_ns - first_took_;
    weight_ = weight_ * keep_ + 1;
    x_ = x_ * keep_ + x;
    y_ = y_ * keep_ + y;
    xx_ = xx_ * keep_ + x * x;
    xy_ = xy_ * keep_ + x * y;
  }

  // All 0 without samples.
  BatchCost fit() const {
    if (weight_ == 0) return {};
    const double mean_rows = first_rows_ + x_ / weight_;
    const double mean_took = first_took_ + y_ / weight_;
    const double spread = xx_ - x_ * x_ / weight_;
    const double slope = spread > 0 ? (xy_ - x_ * y_ / weight_) / spread : 0;
    if (slope <= 0) return {mean_took, 0};
    const double fixed = mean_took - slope * mean_rows;
    if (fixed < 0) return {0, slope_through_zero()};
    return {fixed, slope};
  }

 private:
  double slope_through_zero() const {
    const double rows_squared = xx_ + 2 * first_rows_ * x_ + weight_ * first_rows_ * first_rows_;
    const double rows_took =
        xy_ + first_rows_ * y_ + first_took_ * x_ + weight_ * first_rows_ * first_took_;
    return rows_took / rows_squared;
  }

  double keep_;
  double weight_ = 0;  // of all samples
  double first_rows_ = 0;
  double first_took_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
};

}  // namespace isotherm
