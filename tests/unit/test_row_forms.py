"""Who groups a batch's rows: Spark where groups are few, the driver where they are many or rows are few."""

import pytest

from weft.spark.job.forms import FEW_ROWS, MOST_ROWS, Forms

MB = 1 << 20


def test_few_rows_are_the_drivers_whatever_becomes_of_them() -> None:
    forms = Forms()
    forms.note(size=100_000, rows=1_000, groups=0)
    assert forms.driver_groups(100 * FEW_ROWS, groups_per_row=0.0)
    assert not forms.driver_groups(100 * FEW_ROWS + 200, groups_per_row=0.0)


@pytest.mark.parametrize(("groups", "by_driver"), [(1_000, False), (150_000, False), (200_000, True)])
def test_more_rows_are_the_drivers_if_groups_are_half_as_many(groups: int, by_driver: bool) -> None:
    forms = Forms()
    forms.note(size=30 * MB, rows=400_000, groups=groups)
    assert forms.driver_groups(30 * MB, groups_per_row=0.0) is by_driver


def test_before_any_batch_the_planner_tells() -> None:
    assert Forms().driver_groups(MB, groups_per_row=5.0)
    assert not Forms().driver_groups(MB, groups_per_row=0.01)


def test_what_a_batch_told_outweighs_what_the_planner_expects() -> None:
    forms = Forms()
    forms.note(size=30 * MB, rows=400_000, groups=100)
    assert not forms.driver_groups(30 * MB, groups_per_row=5.0)


def test_more_rows_than_fit_into_the_drivers_memory_are_sparks() -> None:
    forms = Forms()
    forms.note(size=10_000, rows=1_000, groups=9_000)
    assert forms.driver_groups(10 * MOST_ROWS, groups_per_row=0.0)
    assert not forms.driver_groups(11 * MOST_ROWS, groups_per_row=0.0)


@pytest.mark.parametrize("size", [None, 0])
def test_batches_of_unknown_size_and_without_rows_are_sparks(size: int | None) -> None:
    assert not Forms().driver_groups(size, groups_per_row=9.0)


def test_a_batch_without_rows_tells_nothing() -> None:
    forms = Forms()
    forms.note(size=10, rows=0, groups=0)
    assert forms.driver_groups(MB, groups_per_row=5.0)


def test_the_next_job_begins_with_what_is_known_until_its_own_batches_tell() -> None:
    before = Forms()
    before.note(MB, rows=10_000, groups=20_000)
    forms = before.for_next_job()
    # The planner expects nothing, or tells better.
    assert forms.driver_groups(30 * MB, groups_per_row=0.0)
    assert not forms.driver_groups(30 * MB, groups_per_row=0.01)
    assert forms.for_next_job().driver_groups(30 * MB, groups_per_row=0.0)
    forms.note(MB, rows=10_000, groups=20)
    assert not forms.driver_groups(30 * MB, groups_per_row=0.0)


def test_rows_with_many_words_are_the_drivers_if_they_fit() -> None:
    forms = Forms()
    forms.note(size=10_000, rows=1_000, groups=1)
    assert forms.driver_groups(10 * MOST_ROWS, groups_per_row=0.0, many_words=True)
    assert not forms.driver_groups(11 * MOST_ROWS, groups_per_row=0.0, many_words=True)
    assert not forms.driver_groups(10 * MOST_ROWS, groups_per_row=0.0)
