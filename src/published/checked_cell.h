#pragma once
#include <cstddef>
#include <string>

namespace lockstep::published {

/// How a printed cell stands to the formula of its column.
enum class CellVerdict {
  kExact,          ///< The formula on the printed inputs gives the printed digits.
  kUnroundedOnly,  ///< Only inputs that the source had before rounding can give it.
  kNot,            ///< No inputs that round to the printed ones give it.
  kOtherMeaning,   ///< The arithmetic holds; the formula does not fit what the cell is said to be. The remark says why.
};

struct CheckedCell {
  size_t row = 0;
  std::string row_name{}, column{}, formula{};
  std::string printed{}, recomputed{};  ///< To the same digits.
  double value = 0, low = 0, high = 0;  ///< Recomputed, and the range that rounding of the inputs leaves.
  CellVerdict verdict = CellVerdict::kExact;
  std::string remark{};
};

}  // namespace lockstep::published
