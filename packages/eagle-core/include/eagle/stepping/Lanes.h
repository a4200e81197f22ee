// Samples side by side in memory of their own, each with the number of the sample it is.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "eagle/stepping/Batch.h"

namespace eagle::stepping {

/// Memory that goes from one run of a thread to its next.
class Scratch {
public:
    struct Piece {
        std::unique_ptr<char, void (*)(void*)> memory{nullptr, std::free};
        std::size_t bytes = 0;
    };

    static Scratch& ofThread() {
        thread_local Scratch scratch;
        return scratch;
    }

    Piece take(std::size_t bytes) {
        const auto fits = [bytes](const Piece& piece) { return piece.bytes >= bytes; };
        const auto found = std::find_if(spare_.begin(), spare_.end(), fits);
        if (found != spare_.end()) {
            std::swap(*found, spare_.back());
            Piece piece = std::move(spare_.back());
            spare_.pop_back();
            kept_ -= piece.bytes;
            return piece;
        }
        const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
        Piece piece;
        piece.memory.reset(static_cast<char*>(std::aligned_alloc(kAlign, rounded)));
        if (!piece.memory) throw std::bad_alloc();
        piece.bytes = rounded;
        return piece;
    }
    void give(Piece piece) noexcept {
        if (!piece.memory || kept_ + piece.bytes > kMostKept) return;
        try {
            spare_.push_back(std::move(piece));
            kept_ += spare_.back().bytes;
        } catch (const std::bad_alloc&) {
        }
    }

private:
    static constexpr std::size_t kAlign = 4096, kMostKept = std::size_t{8} << 20;

    std::vector<Piece> spare_;
    std::size_t kept_ = 0;
};

/// An address outside its array, from which an index comes back into it.
inline char* shifted(char* data, std::int64_t bytes) {
    return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes));
}

/// Calls visit(T{}) with an unsigned type of `bytes` bytes.
template <class Visit>
void visitElement(std::size_t bytes, Visit visit) {
    switch (bytes) {
        case 1:
            return visit(std::uint8_t{});
        case 2:
            return visit(std::uint16_t{});
        case 4:
            return visit(std::uint32_t{});
        default:
            return visit(std::uint64_t{});
    }
}

template <class T>
T load(const char* row, std::int64_t i) {
    T value;
    std::memcpy(&value, row + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    return value;
}

template <class T>
void store(char* row, std::int64_t i, T value) {
    std::memcpy(row + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

/// The positions of the bytes of [first, first + n) that are set, or are not; how many there are.
template <bool Set>
std::int64_t positions(const std::uint8_t* mask, std::int64_t n, std::int32_t* out) {
    constexpr std::uint64_t kLow = 0x0101010101010101, kHigh = kLow << 7;
    std::int64_t found = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, mask + i, sizeof eight);
        const std::uint64_t set = ((eight & ~kHigh) + ~kHigh) | eight;  // its high bits: which bytes are not zero
        if ((Set ? set & kHigh : ~set & kHigh) == 0) continue;
        for (std::int64_t j = i; j < i + 8; ++j)
            if ((mask[j] != 0) == Set) out[found++] = static_cast<std::int32_t>(j);
    }
    for (; i < n; ++i)
        if ((mask[i] != 0) == Set) out[found++] = static_cast<std::int32_t>(i);
    return found;
}

/// Where the rows of lanes are in their memory.
class Layout {
public:
    Layout(const Batch& batch, std::int64_t capacity) : capacity(capacity) {
        for (const Row& row : batch.rows) {
            offsets_.push_back(bytes_);
            bytes_ += pitch(row.bytes) * row.bytes;
        }
        mask_ = bytes_;
        bytes_ += pitch(1);
        ids_ = bytes_;
        bytes_ += pitch(sizeof(std::int64_t)) * sizeof(std::int64_t);
    }

    const std::int64_t capacity;

    std::size_t bytes() const { return bytes_; }
    std::size_t row(std::size_t i) const { return offsets_[i]; }
    std::size_t mask() const { return mask_; }
    std::size_t ids() const { return ids_; }
    /// Elements from one row to the next. Rows of whole pages would evict each other: a line more.
    std::size_t pitch(std::size_t bytes) const { return static_cast<std::size_t>(capacity) + 64 / bytes; }

private:
    std::vector<std::size_t> offsets_;
    std::size_t bytes_ = 0, mask_, ids_;
};

/// Samples of one age: that many steps each of them took.
class Lanes {
public:
    Lanes(const Batch& batch, const Layout& layout)
        : batch_(batch), layout_(layout), piece_(Scratch::ofThread().take(layout.bytes())) {}
    ~Lanes() { Scratch::ofThread().give(std::move(piece_)); }
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    std::int64_t age = 0, count = 0;

    std::int64_t room() const { return layout_.capacity - count; }
    char* row(std::size_t i) const { return piece_.memory.get() + layout_.row(i); }
    std::uint8_t* mask() const { return reinterpret_cast<std::uint8_t*>(piece_.memory.get() + layout_.mask()); }

    /// Adds samples first + picked[0..n), which are not finished.
    void gather(std::int64_t first, const std::int32_t* picked, std::int64_t n) {
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            const Row& from = batch_.rows[r];
            visitElement(from.bytes, [&]<class T>(T) {
                const char* source = from.data + first * static_cast<std::int64_t>(sizeof(T));
                char* to = row(r);
                for (std::int64_t j = 0; j < n; ++j) store(to, count + j, load<T>(source, picked[j]));
            });
        }
        std::memset(mask() + count, 0, static_cast<std::size_t>(n));
        for (std::int64_t j = 0; j < n; ++j) setId(count + j, first + picked[j]);
        count += n;
    }

    /// Makes the lanes a multiple of the batch's vector, with finished ones behind them; how many there are then.
    std::int64_t pad() {
        const std::int64_t padded = batch_.padded(count);
        if (padded == count) return count;
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            visitElement(batch_.rows[r].bytes, [&]<class T>(T) {
                char* here = row(r);
                for (std::int64_t j = count; j < padded; ++j) store(here, j, load<T>(here, 0));
            });
        }
        std::memset(mask() + count, 1, static_cast<std::size_t>(padded - count));
        return padded;
    }

    /// Writes the lanes picked[0..n) back to their samples.
    void scatter(const std::int32_t* picked, std::int64_t n) const {
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            const Row& to = batch_.rows[r];
            if (!to.writes) continue;
            visitElement(to.bytes, [&]<class T>(T) {
                const char* from = row(r);
                for (std::int64_t j = 0; j < n; ++j) store(to.data, id(picked[j]), load<T>(from, picked[j]));
            });
        }
        for (std::int64_t j = 0; j < n; ++j) batch_.finished[id(picked[j])] = mask()[picked[j]];
    }

    /// Takes the lanes picked[0..n), which ascend, away: lanes from the end fill their places.
    void drop(const std::int32_t* picked, std::int64_t n, std::int32_t* scratch) {
        const std::int64_t left = count - n;
        std::int64_t moves = 0, end = count - 1, gone = n - 1;
        for (std::int64_t j = 0; j < n && picked[j] < left; ++j, --end) {
            for (; gone >= 0 && picked[gone] == end; --gone) --end;
            scratch[moves++] = static_cast<std::int32_t>(end);
        }
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            visitElement(batch_.rows[r].bytes, [&]<class T>(T) {
                char* here = row(r);
                for (std::int64_t j = 0; j < moves; ++j) store(here, picked[j], load<T>(here, scratch[j]));
            });
        }
        for (std::int64_t j = 0; j < moves; ++j) {
            setId(picked[j], id(scratch[j]));
            mask()[picked[j]] = 0;
        }
        count = left;
    }

    /// Adds all lanes of another, which has none then.
    void absorb(Lanes& other) {
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            const std::size_t bytes = batch_.rows[r].bytes;
            std::memcpy(row(r) + static_cast<std::size_t>(count) * bytes, other.row(r),
                        static_cast<std::size_t>(other.count) * bytes);
        }
        std::memset(mask() + count, 0, static_cast<std::size_t>(other.count));
        for (std::int64_t j = 0; j < other.count; ++j) setId(count + j, other.id(j));
        count += other.count;
        other.count = 0;
    }

    /// Takes samples [first, first + n), finished ones too, in order.
    void takeFrom(std::int64_t first, std::int64_t n) {
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            const Row& from = batch_.rows[r];
            std::memcpy(row(r), from.data + first * static_cast<std::int64_t>(from.bytes),
                        static_cast<std::size_t>(n) * from.bytes);
        }
        std::memcpy(mask(), batch_.finished + first, static_cast<std::size_t>(n));
        count = n;
    }
    /// Writes back what a kernel writes of them.
    void writeTo(std::int64_t first) const {
        for (std::size_t r = 0; r < batch_.rows.size(); ++r) {
            const Row& to = batch_.rows[r];
            if (to.writes)
                std::memcpy(to.data + first * static_cast<std::int64_t>(to.bytes), row(r),
                            static_cast<std::size_t>(count) * to.bytes);
        }
        std::memcpy(batch_.finished + first, mask(), static_cast<std::size_t>(count));
    }

    /// Points an argument block at these lanes, and says where their rows are: lane 0 is at index `first`.
    void show(Arguments& arguments, std::vector<Row>& rows, std::int64_t first = 0) const {
        std::size_t r = 0;
        for (std::size_t i = 0; i < batch_.planes.size(); ++i) {
            const Plane& plane = batch_.planes[i];
            arguments.setPlane(i, shifted(row(r), -first * static_cast<std::int64_t>(plane.bytes)),
                               layout_.pitch(plane.bytes));
            for (const std::size_t end = r + plane.components; r < end; ++r)
                rows[r].data = shifted(row(r), -first * static_cast<std::int64_t>(plane.bytes));
        }
        arguments.setMask(reinterpret_cast<std::uint8_t*>(shifted(reinterpret_cast<char*>(mask()), -first)));
    }

private:
    char* ids() const { return piece_.memory.get() + layout_.ids(); }
    std::int64_t id(std::int64_t lane) const { return load<std::int64_t>(ids(), lane); }
    void setId(std::int64_t lane, std::int64_t sample) { store(ids(), lane, sample); }

    const Batch& batch_;
    const Layout& layout_;
    Scratch::Piece piece_;
};

}  // namespace eagle::stepping
