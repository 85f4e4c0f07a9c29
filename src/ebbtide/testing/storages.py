"""What a storage must do, besides what its studies must (ebbtide.testing.logs).

A subject is a function without arguments that opens the storage anew, for writing. It is empty at first; the checks use
it one after the other, each with studies of its own.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ebbtide.algorithms import Algorithm
from ebbtide.clock import ManualClock
from ebbtide.errors import StudyError, TrialError, UnknownStudyError
from ebbtide.optimizer import Optimizer
from ebbtide.parts.staleness import SlidingWindow
from ebbtide.study.limits import AtMost
from ebbtide.study.storage import Storage, tokens
from ebbtide.testing.expectations import expect, expect_equal, expect_error
from ebbtide.testing.logs import LOG_CHECKS, TINY, Opened

Opening = Callable[[], Storage]

# In the order of their code points, whatever the language of the server
NAMES = (
    "list A",
    "list a",
    "list a%",
    "list a'b",
    "list a?",
    "list a_b",
    "list ab",
    "list b",
    "list z",
    "list é",
    "list 水",
    "list 🌊",
)
TOGETHER, EACH = 3, 8  # threads that use one study at the same time, and how often


def studies_of(opening: Opening) -> Opened:
    """Studies of a storage, as the checks of a log want them."""
    return lambda name, space, **options: Optimizer(space, **options, storage=opening(), name=name)


def names_are_found_by_prefix_and_in_pages(opening: Opening) -> None:
    with closing(opening()) as storage:
        for name in reversed(NAMES):
            Optimizer(TINY, storage=storage, name=name, seed=0)
        expect_equal(list(NAMES), storage.names("list "), "the names")
        expect_equal(["list a", "list a%", "list a'b", "list a?", "list a_b", "list ab"], storage.names("list a"), "a")
        expect_equal(len(NAMES), storage.count("list "), "their number")
        found, after = list[str](), None
        while True:
            page = storage.listed("list ", after, limit=5)
            found += [summary.name for summary in page.summaries]
            if (after := page.next) is None:
                break
        expect_equal(list(NAMES), found, "the pages")
        for unknown in ("list", "list%", "list _", "no such", "", "\0", "\ud800", "a/b"):
            expect_error(UnknownStudyError, partial(storage.log, unknown))


def a_summary_and_the_pages_agree_with_the_history(opening: Opening) -> None:
    """Also of a study that has removed something."""
    with closing(opening()) as storage:
        clock = ManualClock()
        options: dict[str, Any] = {"seed": 0, "n_initial": 3, "clock": clock, "constraints": {"heat": AtMost(5.0)}}
        forgetful = Algorithm(staleness=SlidingWindow(size=3))
        study = Optimizer(TINY, storage=storage, name="counts", algorithm=forgetful, **options)
        for number in range(10):
            clock.advance(1.0)
            trial = study.ask()
            outcome: dict[str, Any] = {"value": float(number), "constraints": {"heat": float(number)}}
            study.tell(trial, **({"failed": True} if number == 3 else {"abandoned": True} if number == 4 else outcome))
        study.ask()
        study.tell({"x": 0.5}, 1.0)
        history, seen = study.history, storage.summary("counts")
        counts = (seen.asked, seen.told, seen.failed, seen.abandoned, seen.active, seen.removed)
        active = sum(told.active for told in history)
        expect_equal((11, 11, 1, 1, active, 9 - active), counts, "asked, told, failed, abandoned, active, removed")
        expect(seen.removed > 0, "nothing was removed")
        expect_equal(study.violations, seen.violations, "the violations")
        expect_equal([seen], storage.listed("counts").summaries, "the study in the list")
        again = Optimizer.open(storage, "counts", clock=clock)
        expect_equal((study.violations, study.told), (again.violations, again.told), "violations and told when opened")
        lines, start = list[tuple[int, object]](), 0
        while (page := storage.page("counts", start, 4)).next is not None:
            lines += page.observations
            start = page.next
        lines += page.observations
        expect_equal(list(enumerate(history)), lines, "the pages")
        for wanted in (True, False):
            those = [line for line, told in enumerate(history) if told.active is wanted]
            found = [line for line, _ in storage.page("counts", 0, 100, wanted).observations]
            expect_equal(those, found, f"the lines with active={wanted}")
            found = [line for line, _ in storage.page("counts", those[1], 1, wanted).observations]
            expect_equal(those[1:2], found, f"a page with active={wanted}")


def what_fails_is_undone(opening: Opening) -> None:
    """All of a transaction, or a part of it."""
    with closing(opening()) as storage:
        study = Optimizer(TINY, storage=storage, name="undone", seed=0)
        with storage.database.transaction(["undone"]):
            study.tell({"x": 0.1}, 1.0)
            expect_error(TrialError, lambda: study.tell(study.trial("0"), 1.0))
            study.tell({"x": 0.2}, 2.0)
        try:
            with storage.database.transaction(["undone"]):
                Optimizer.open(storage, "undone").tell({"x": 0.3}, 3.0)
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
    with closing(opening()) as again:
        values = [told.value for told in Optimizer.open(again, "undone").history]
        expect_equal([1.0, 2.0], values, "what is recorded")


def several_queries_see_one_state(opening: Opening) -> None:
    with closing(opening()) as storage, closing(opening()) as other:
        study = Optimizer(TINY, storage=other, name="reading", seed=0)
        with storage.database.reading():
            before = storage.summary("reading").told
            study.tell({"x": 0.5}, 1.0)
            during = storage.summary("reading").told
        expect_equal((0, 0, 1), (before, during, storage.summary("reading").told), "told before, during and after")


def a_deleted_study_is_gone_and_its_number_with_it(opening: Opening) -> None:
    with closing(opening()) as storage, closing(opening()) as other:
        study = Optimizer(TINY, storage=storage, name="deleted", seed=0)
        study.tell(study.ask(), 1.0)
        number = storage.identify("deleted")
        other.delete("deleted")
        expect_error(UnknownStudyError, lambda: study.tell({"x": 0.5}, 1.0))
        expect_error(UnknownStudyError, lambda: other.delete("deleted"))
        again = Optimizer(TINY, storage=other, name="deleted", seed=0)
        expect_equal([], again.history, "the history of another study of the same name")
        expect(other.identify("deleted") != number, f"the number {number} was used again")
        expect_error(StudyError, lambda: other.create("deleted", again.definition))


def who_comes_first_creates_the_study(opening: Opening) -> None:
    """Several at the same moment."""

    def create(storage: Storage) -> int:
        Optimizer(TINY, storage=storage, name="created", seed=0)
        return storage.identify("created")

    numbers = _together(opening, [create] * TOGETHER)
    expect_equal(1, len(set(numbers)), "the number of studies created")


def everybody_records_in_one_study_at_once(opening: Opening) -> None:
    with closing(opening()) as storage:
        Optimizer(TINY, storage=storage, name="together", seed=0, n_initial=1000)

    def work(number: int) -> Callable[[Storage], list[str]]:
        def use(storage: Storage) -> list[str]:
            study, asked = Optimizer.open(storage, "together"), list[str]()
            for turn in range(EACH):
                study.tell({"x": 0.5}, float(turn), key=f"{number} {turn}")
                study.tell({"x": 0.5}, float(turn), key=f"shared {turn}")  # by everybody, and recorded once
                trial = study.ask()
                study.tell(trial, 1.0)
                asked.append(trial.id)
            return asked

        return use

    asked = [trial for ids in _together(opening, [work(n) for n in range(TOGETHER)]) for trial in ids]
    expect_equal(sorted(map(str, range(TOGETHER * EACH))), sorted(asked), "the trials handed out")
    with closing(opening()) as storage:
        found = Optimizer.open(storage, "together").history
    keys = {f"{n} {turn}" for n in (*range(TOGETHER), "shared") for turn in range(EACH)}
    expect_equal(sorted(keys), sorted(told.key for told in found if told.key is not None), "the keys recorded")
    expect_equal(sorted(asked), sorted(told.trial_id for told in found if told.trial_id is not None), "the trials told")


def nobody_waits_for_each_other(opening: Opening) -> None:
    """Transactions with the same studies, in any order, do not end in a deadlock."""
    names = ["circle a", "circle b", "circle c"]
    with closing(opening()) as storage:
        for name in names:
            Optimizer(TINY, storage=storage, name=name, seed=0)

    def work(shift: int) -> Callable[[Storage], int]:
        def use(storage: Storage) -> int:
            order = names[shift:] + names[:shift]
            studies = [Optimizer.open(storage, name) for name in order]
            for turn in range(EACH):
                with storage.database.transaction(order):
                    for study in studies:
                        study.tell({"x": 0.5}, float(turn))
            return EACH

        return use

    _together(opening, [work(shift) for shift in range(TOGETHER)])
    with closing(opening()) as storage:
        told = [storage.summary(name).told for name in names]
    expect_equal([TOGETHER * EACH] * len(names), told, "the numbers told")


def who_insists_on_an_ask_is_the_next(opening: Opening) -> None:
    with closing(opening()) as storage, closing(opening()) as other:
        clock = ManualClock()
        mine = Optimizer(TINY, storage=storage, name="turn", seed=0, clock=clock, n_initial=1000)
        theirs = Optimizer.open(other, "turn", clock=clock)
        asked: list[str] = []
        thread = threading.Thread(target=lambda: asked.append(theirs.ask().id))
        with storage.log("turn").turn(insist=True):
            thread.start()
            mine.tell({"x": 0.5}, 1.0)  # whoever tells does not wait
            asked.append(mine.ask().id)
        thread.join()
    expect_equal(["0", "1"], asked, "the order of the asks")


def a_family_knows_its_own_siblings(opening: Opening) -> None:
    """Those of the same tenant, in the order in which they came; and it forgets those that are deleted."""
    clock, around = ManualClock(), dict[str, Any](seed=0, family="kin")
    with closing(opening()) as storage:
        for name in ("kin.a", "kin.b", "other kin.a"):
            study = Optimizer(TINY, storage=storage, name=name, clock=clock, **around)
            for _ in range(8):
                trial = study.ask()
                study.tell(trial, trial.params["x"] ** 2)
                clock.advance(1.0)
    with closing(opening()) as storage:
        study = Optimizer(TINY, storage=storage, name="kin.c", clock=clock, **around)
        study.ask()
        expect_equal(2, study.siblings, "the number of siblings")
        alone = Optimizer(TINY, storage=storage, name="kin.d", clock=clock, seed=0, family="no kin")
        alone.ask()
        expect_equal(0, alone.siblings, "the number of siblings of another family")
        storage.delete("kin.a")
        left = storage.log("kin.c").siblings() or {}
        expect_equal(1, left["siblings"], "the number of siblings that are left")
        expect_equal(2, Optimizer.open(storage, "kin.c", clock=clock).siblings, "the number of siblings recorded")


def tokens_are_kept_and_revoked(opening: Opening) -> None:
    with closing(opening()) as storage:
        secret, made = tokens.create(storage.database, "Åsa", ["read", "tell"], "team-a.*")
    with closing(opening()) as storage:
        expect_equal([made], [token for token in tokens.stored(storage.database) if token.id == made.id], "the token")
        expect_equal(made.digest, tokens.digest(secret), "its digest")
        tokens.revoke(storage.database, made.id)
        (revoked,) = (token for token in tokens.stored(storage.database) if token.id == made.id)
        expect(revoked.revoked is not None, "a revoked token counts as valid")


def _together(opening: Opening, works: Sequence[Callable[[Storage], Any]]) -> list[Any]:
    """What several threads return, each with a storage of its own, who begin at the same moment."""
    results: list[Any] = [None] * len(works)
    barrier = threading.Barrier(len(works))

    def run(number: int) -> None:
        try:
            with closing(opening()) as storage:
                barrier.wait()
                results[number] = works[number](storage)
        except BaseException as error:
            barrier.abort()
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error  # the first cause
    return results


def _of_a_log(check: Callable[[Opened], None]) -> Callable[[Opening], None]:
    def checked(opening: Opening) -> None:
        check(studies_of(opening))

    checked.__name__ = check.__name__
    return checked


STORAGE_CHECKS: tuple[Callable[[Opening], None], ...] = (
    *map(_of_a_log, LOG_CHECKS),
    names_are_found_by_prefix_and_in_pages,
    a_summary_and_the_pages_agree_with_the_history,
    what_fails_is_undone,
    several_queries_see_one_state,
    a_deleted_study_is_gone_and_its_number_with_it,
    who_comes_first_creates_the_study,
    everybody_records_in_one_study_at_once,
    nobody_waits_for_each_other,
    who_insists_on_an_ask_is_the_next,
    a_family_knows_its_own_siblings,
    tokens_are_kept_and_revoked,
)
