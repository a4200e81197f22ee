// Texts as a terminal shows them: characters and the cells they take.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eagle::graph::detail {

/// The characters of a UTF-8 text; what breaks a line or moves the cursor becomes a blank, what is no UTF-8 becomes
/// U+FFFD.
inline std::u32string decoded(std::string_view text) {
    std::u32string out;
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i++]);
        const int more = lead < 0x80 ? 0 : lead >= 0xF0 && lead < 0xF5 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC2 ? 1 : -1;
        char32_t c = more <= 0 ? lead : lead & (0x3F >> more);
        bool fits = more >= 0 && lead < 0xF5;
        for (int k = 0; k < more && fits; ++k) {
            fits = i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
            if (fits) c = c << 6 | (static_cast<unsigned char>(text[i++]) & 0x3F);
        }
        if (!fits) c = 0xFFFD;
        out += c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 ? U' ' : c;
    }
    return out;
}

inline void append(std::string& out, char32_t c) {
    const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
    if (c < 0x80) return put(c);
    if (c < 0x800) {
        put(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            put(0xE0 | c >> 12);
        } else {
            put(0xF0 | c >> 18);
            put(0x80 | (c >> 12 & 0x3F));
        }
        put(0x80 | (c >> 6 & 0x3F));
    }
    put(0x80 | (c & 0x3F));
}

inline std::string encoded(std::u32string_view text) {
    std::string out;
    for (const char32_t c : text) append(out, c);
    return out;
}

/// Cells a character takes: none if it joins the one before, two for scripts as wide as tall and emoji.
inline int cells(char32_t c) {
    constexpr std::pair<char32_t, char32_t> joining[] = {
        {0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
    constexpr std::pair<char32_t, char32_t> wide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                                      {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                                      {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                                                      {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    const auto in = [c](const auto& ranges) {
        return std::any_of(std::begin(ranges), std::end(ranges),
                           [c](const auto& r) { return c >= r.first && c <= r.second; });
    };
    return c < 0x300 ? 1 : in(joining) ? 0 : in(wide) ? 2 : 1;
}

inline int cells(std::u32string_view text) {
    int count = 0;
    for (const char32_t c : text) count += cells(c);
    return count;
}

/// A text in ASCII: what eagle itself writes has a spelling, anything else is a question mark.
inline std::u32string plain(std::u32string_view text) {
    std::u32string out;
    for (const char32_t c : text) switch (c) {
            case U'≤':
                out += U"<=";
                break;
            case U'≥':
                out += U">=";
                break;
            case U'·':
                out += U"-";
                break;
            case U'…':
                out += U"...";
                break;
            default:
                out += c < 0x80 ? c : U'?';
        }
    return out;
}

/// A text in at most `most` cells, with `mark` where something is missing.
inline std::u32string cut(const std::u32string& text, int most, std::u32string_view mark) {
    if (cells(text) <= most) return text;
    std::u32string out;
    int used = cells(mark);
    for (const char32_t c : text) {
        if ((used += cells(c)) > most) break;
        out += c;
    }
    return out.append(mark);
}

/// A text in lines of at most `most` cells, broken behind a blank, comma, dot, slash or underscore where there is one.
inline std::vector<std::u32string> wrapped(const std::u32string& text, int most) {
    std::vector<std::u32string> lines;
    std::u32string line;
    for (const char32_t c : text) {
        if (cells(line) + cells(c) > most && !line.empty()) {
            const std::size_t at = line.find_last_of(U" ,./_");
            const bool late = at != std::u32string::npos && static_cast<int>(at) >= most / 3;
            const std::size_t end = late ? at + 1 : line.size();
            lines.push_back(line.substr(0, end));
            line.erase(0, end);
        }
        if (c != U' ' || !line.empty() || lines.empty()) line += c;
    }
    lines.push_back(line);
    for (std::u32string& some : lines)
        while (some.size() > 1 && some.back() == U' ') some.pop_back();
    return lines;
}

}  // namespace eagle::graph::detail
