// Which step was the last of a group that finished: found by steps done again, and said only where it is certain.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"
#include "eagle/stepping/Record.h"
#include "stepping_problem.h"

using stepping::Arguments;
using stepping::Group;
using stepping::Record;
using stepping::Run;
using stepping::Tally;

namespace {

/// The most steps of a sample: known, or a bound.
struct Answer {
    std::int64_t steps;
    bool exact;
};

/// Samples of an entry that reads how many steps it takes; its launches of one step come to other bits where it marks.
struct Fused : Problem {
    Fused(std::vector<std::int64_t> stops, bool marks) {
        n = static_cast<std::int64_t>(stops.size());
        cap = 1000;
        marking = marks;
        guarded = true;
        columns = {{8, 2, true, true, 0, {}, {}}, {4, 3, true, false, 0, {}, {}}, {2, 1, false, true, 0, {}, {}}};
        allocate();
        stop = std::move(stops);
    }
};

/// A launch of a group that finishes in it, with the rest of the run at `known` steps.
class Finish {
public:
    Finish(Problem& problem, std::int64_t first, std::int64_t live, std::int64_t known)
        : check_(problem),
          batch_(problem.batch()),
          group_{own_, first, problem.n - first, problem.n - first, problem.n, first, problem.n - first, 0, live} {
        run_.raise(known);
    }

    /// Took `steps` so far.
    void launch(std::int64_t steps) {
        group_.live -= own_.call(steps, group_.base, group_.count, group_.samples);
        group_.age += steps;
    }

    Answer resolved(std::int64_t steps) {
        record_.keep(group_, batch_.rows, batch_.finished);
        return ended(steps);
    }
    Answer ended(std::int64_t steps) {
        launch(steps);
        CHECK(group_.live == 0);
        record_.resolve(group_);
        return answer();
    }

    bool endsInOne() {
        record_.keep(group_, batch_.rows, batch_.finished);
        return record_.endsInOne(group_);
    }
    bool same() const { return record_.same(group_); }

    void raise(std::int64_t steps) { run_.raise(steps); }
    Answer answer() const {
        check_.samples(true);  // what was done again left no trace
        return {run_.most(), run_.exact()};
    }

private:
    const Check check_;
    const Batch batch_;
    Tally tally_;
    Run run_{batch_, 1, &tally_, nullptr, nullptr};
    Arguments own_{batch_}, probing_{batch_};
    Record record_{run_, tally_, probing_};
    Group group_;
};

void checkAnswer(const Answer& found, std::int64_t steps, bool exact) {
    CHECK(found.steps == steps && found.exact == exact);
}

/// Any last step, any knowledge, whatever a launch of one step comes to that is the same as others: exact. Samples
/// that were finished, or are guarded, do not count.
void testLastStep() {
    for (const std::int64_t first : {0, 3}) {
        for (std::int64_t word = 2; word <= 24; ++word) {
            for (std::int64_t last = 1; last <= word; ++last) {
                for (std::int64_t known = 0; known <= word + 1; ++known) {
                    Fused problem({1, 1, 1, last, 1, kNever, (last + 1) / 2, kNever, last}, false);
                    problem.guard[5] = 0x80, problem.mask[7] = 1;
                    for (std::int64_t i = 0; i < first; ++i) problem.mask[static_cast<std::size_t>(i)] = 1;
                    Finish finish(problem, first, 7 - first, known);
                    checkAnswer(finish.resolved(word), std::max(last, known), true);
                }
            }
        }
    }
}

/// From an age on, which is not the first.
void testLater() {
    for (std::int64_t last = 6; last <= 13; ++last) {
        for (std::int64_t known = 0; known <= 14; ++known) {
            Fused problem({last, 6, last}, false);
            Finish finish(problem, 0, 3, known);
            finish.launch(5);
            checkAnswer(finish.resolved(8), std::max(last, known), true);
        }
    }
}

/// Launches of one step come to other bits: no answer rests on them. Steps done again are halved as long as two are
/// left, so that pairs of last steps cannot be told apart, the first of each state kept.
void testOtherBits() {
    const struct {
        std::int64_t word, known, last, steps;
        bool exact;
    } expected[] = {
        {2, 0, 1, 2, false}, {2, 0, 2, 2, false},                                           //
        {3, 0, 1, 2, false}, {3, 0, 2, 2, false}, {3, 0, 3, 3, true},                       // after 2
        {4, 0, 1, 2, false}, {4, 0, 2, 2, false}, {4, 0, 3, 3, true}, {4, 0, 4, 4, true},   // after 2, 3
        {8, 0, 2, 2, false}, {8, 0, 3, 3, true},  {8, 0, 4, 4, true}, {8, 0, 5, 6, false},  // after 4, from there 2
        {8, 0, 6, 6, false}, {8, 0, 7, 7, true},  {8, 0, 8, 8, true},                       // after 4, from there 2, 3
        {2, 1, 1, 2, false}, {2, 1, 2, 2, false}, {4, 1, 3, 3, true}, {4, 1, 2, 2, false},  //
        {4, 2, 1, 2, true},  {4, 2, 2, 2, true},  {4, 2, 3, 3, true}, {4, 2, 4, 4, true},   //
        {4, 3, 3, 3, true},  {4, 3, 4, 4, true},  {4, 4, 4, 4, true}, {4, 9, 1, 9, true},
    };
    for (const auto& [word, known, last, steps, exact] : expected) {
        Fused problem({1, last, 1, kNever}, true);
        problem.guard[3] = 1;
        Finish finish(problem, 0, 3, known);
        checkAnswer(finish.resolved(word), steps, exact);
    }
}

/// All finish in one step: a launch of one tells, if its bits are the group's.
void testOneStep() {
    for (const bool marks : {false, true}) {
        Fused problem({1, 1, kNever, 1}, marks);
        problem.guard[2] = 1;
        Finish finish(problem, 0, 3, 1);
        CHECK(finish.endsInOne());
        finish.launch(5);
        CHECK(finish.same() == !marks);
        checkAnswer(finish.answer(), 1, true);

        Fused passed({1, 1, 1}, marks);
        Finish others(passed, 0, 3, 1);
        CHECK(others.endsInOne());
        others.raise(5);  // by others, meanwhile
        checkAnswer(others.ended(5), 5, true);

        Fused longer({1, 2, 1}, marks);
        Finish more(longer, 0, 3, 1);
        CHECK(!more.endsInOne());
        checkAnswer(more.ended(5), 2, !marks);
    }
}

// ---- whole runs

Answer answerOf(Problem& problem) {
    const Check check(problem);
    const Report report = stepping::stepRun(problem.batch(), 1, nullptr, nullptr);
    check.samples(true);
    check.report(report);
    return {report.steps, report.exact};
}

/// Two blocks, of which the second takes a step more, or none.
void testRuns() {
    for (const bool marks : {false, true}) {
        for (const std::int64_t second : {1, 2}) {
            Fused problem(std::vector<std::int64_t>(128, 1), marks);
            std::fill(problem.stop.begin() + 64, problem.stop.end(), second);
            if (!marks) {
                checkAnswer(answerOf(problem), second, true);
            } else {
                checkAnswer(answerOf(problem), 2, false);
            }
        }
    }
    Fused later(std::vector<std::int64_t>(128, 1), true);  // a first block of the same bits says nothing of others
    later.marksFrom = 64;
    checkAnswer(answerOf(later), 2, false);
    Fused single(std::vector<std::int64_t>(128, 1), true);  // the last is found by launches of several steps
    single.stop[40] = 3;
    checkAnswer(answerOf(single), 3, true);
    for (const std::int64_t last : {1, 4, 5, 6}) {  // launches of three steps
        Fused threes(std::vector<std::int64_t>(20, 1), false);
        threes.unit = 3;
        threes.cap = 6;
        threes.stop[7] = last;
        checkAnswer(answerOf(threes), last > 3 ? 6 : 3, false);
    }
    Fused alike(std::vector<std::int64_t>(128, 1), false);  // where it is not worth telling one step from two
    Batch batch = alike.batch();
    batch.tellsOne = false;
    const Report report = stepping::stepRun(batch, 1, nullptr, nullptr);
    checkAnswer({report.steps, report.exact}, 2, false);
    Fused capped({9, 9, 9}, true);  // some are left: they took what the cap allows
    capped.cap = 7;
    checkAnswer(answerOf(capped), 7, true);
}

}  // namespace

int main() {
    testLastStep();
    testLater();
    testOtherBits();
    testOneStep();
    testRuns();
}
