// fmt as a part of the binary (ROCCA_STATIC_LIBRARIES): Debian has it as a shared library only, and
// another version of it in each release.
#include <fmt/format-inl.h>

// Templates that fmt's headers expect in its library.
template char fmt::detail::decimal_point_impl<char>(locale_ref);
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(locale_ref);
template fmt::detail::locale_ref::locale_ref(const std::locale&);
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
template fmt::detail::dragonbox::decimal_fp<float> fmt::detail::dragonbox::to_decimal<float>(
    float) noexcept;
template fmt::detail::dragonbox::decimal_fp<double> fmt::detail::dragonbox::to_decimal<double>(
    double) noexcept;
