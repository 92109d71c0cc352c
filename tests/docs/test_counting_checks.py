"""Which test holds which acceptance check of counting without a keeper, and that none was lost.

Spec: federated-counting, section 13. Quality beside one keeper is printed by `python -m
bench.counting`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.docs.checks import ROOT, missing, numbers_of

PAGE: Final = ROOT / "docs" / "spec" / "federated-counting.md"
ROUNDS: Final = "tests/algorithms/counts/test_rounds.py"
NOISE: Final = "tests/algorithms/counts/test_noise.py"
PATHS: Final = "tests/curator/records/test_job_paths.py"
DEBIT: Final = "tests/curator/records/test_job_debit.py"
SERVICES: Final = "tests/e2e/test_counting.py"
HELD: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "tests/algorithms/counts/test_golden.py::test_a_seeded_central_result_is_byte_identical",
        "tests/algorithms/counts/test_golden.py::"
        "test_every_digest_belongs_to_a_case_and_seeds_matter",
    ),
    2: (
        f"{ROUNDS}::test_n_grams_over_curators_are_those_of_one_keeper",
        f"{ROUNDS}::test_adaptive_n_grams_too",
        f"{ROUNDS}::test_trees_over_curators_are_those_of_one_keeper",
        f"{ROUNDS}::test_diffpart_over_curators_is_that_of_one_keeper",
        f"{ROUNDS}::test_a_histogram_of_sets_over_curators_is_that_of_one_keeper",
        f"{SERVICES}::test_n_grams_are_those_of_one_keeper_also_over_a_restart",
        f"{SERVICES}::test_a_prefix_tree_is_that_of_one_keeper",
        f"{SERVICES}::test_a_prefix_tree_over_time_is_that_of_one_keeper",
        f"{SERVICES}::test_sets_of_items_are_counted_too",
        f"{SERVICES}::test_one_debit_in_every_kind_of_round",
        "tests/e2e/test_hundred_curators.py::test_a_hundred_curators_release_what_one_keeper_does",
    ),
    3: (
        f"{NOISE}::test_the_same_noise_gives_the_same_tree_for_any_number_of_curators",
        f"{NOISE}::test_opened_empties_have_the_law_of_sampled_ones",
        f"{NOISE}::test_a_tree_over_curators_is_as_large_as_a_keepers",
        f"{NOISE}::test_frequent_itemsets_survive_three_draws_of_noise",
        f"{SERVICES}::test_a_release_at_a_useful_epsilon_has_the_noise_of_its_law",
    ),
    4: (
        f"{ROUNDS}::test_what_one_sequence_adds_to_each_question",
        f"{ROUNDS}::"
        "test_the_worst_adaptive_transcript_spends_epsilon_and_with_the_end_at_level_1_more",
        f"{ROUNDS}::test_one_sequence_is_in_one_cell_of_a_trees_question",
        f"{ROUNDS}::test_every_record_spends_epsilon_along_its_chain_of_diffpart",
    ),
    5: (
        f"{ROUNDS}::test_worked_example_a",
        f"{ROUNDS}::test_worked_example_b",
        "tests/curator/records/test_sequence_rounds.py::test_example_a_of_the_spec_by_hand",
        f"{DEBIT}::test_example_c_the_filter_leaves_out_who_has_spent_all",
        f"{PATHS}::test_example_c_in_public",
        "tests/algorithms/counts/test_paths.py::test_example_b_spends_epsilon_along_every_path",
    ),
    6: (
        "tests/tacit/accounting/test_spend_filter.py::"
        "test_random_courses_never_pass_epsilon_and_are_the_plain_twins",
        f"{DEBIT}::test_any_course_spends_no_more_than_epsilon",
        f"{ROUNDS}::test_n_grams_over_curators_are_those_of_one_keeper",
    ),
    7: ("tests/tacit/accounting/test_spend_filter.py::test_exact_audit_of_a_hostile_asker",),
    8: (
        f"{DEBIT}::test_the_first_step_may_lie_about_its_rate_too",
        f"{DEBIT}::test_changed_terms_are_refused_and_debit_nothing_more",
        f"{DEBIT}::test_terms_may_not_come_or_go",
        f"{DEBIT}::test_a_round_that_is_not_that_of_its_terms_is_refused",
        f"{DEBIT}::test_steps_cannot_be_repeated_reordered_or_too_many",
        f"{DEBIT}::test_even_with_repeats_allowed_a_step_is_answered_once",
        f"{DEBIT}::test_what_was_left_out_shows_nowhere",
        f"{PATHS}::test_a_lie_is_refused_by_name_and_debits_nothing",
        "tests/algorithms/counts/test_paths.py::test_random_courses_spend_what_their_paths_spend",
    ),
    9: (
        f"{DEBIT}::test_one_debit_pays_for_all_steps",
        f"{DEBIT}::test_a_budget_for_one_job_admits_one",
        f"{DEBIT}::test_a_restored_curator_answers_no_later_step",
        "tests/e2e/test_counting_crashes.py::test_a_killed_service_spends_nothing_twice",
        "tests/curator/test_crashes.py::test_what_was_prepared_is_sent_after_a_restart",
        "tests/curator/test_crashes.py::test_a_lost_answer_is_followed_by_the_same_bytes",
        "tests/e2e/test_counting_cohort.py::test_who_missed_the_first_step_is_not_asked_again",
    ),
    10: (
        f"{SERVICES}::test_a_round_that_never_froze_is_asked_again_and_counts_once",
        f"{SERVICES}::test_a_round_that_may_have_frozen_is_not_asked_again",
        "tests/curator/records/test_attempts.py::"
        "test_a_step_that_never_froze_is_answered_again_and_spends_once",
        "tests/curator/records/test_attempts.py::"
        "test_without_enough_statements_nothing_is_answered_again",
        f"{ROUNDS}::test_an_aborted_round_leaves_the_shallower_tree",
    ),
    11: (
        f"{ROUNDS}::test_a_question_of_130_000_cells_is_the_same_in_parts",
        f"{ROUNDS}::test_parts_of_a_sum_spend_what_the_whole_spends",
        f"{DEBIT}::test_a_curator_that_dies_between_parts_counts_them_once",
        f"{PATHS}::test_parts_in_any_order_are_one_question",
    ),
    12: (
        "tests/algorithms/counts/test_thresholds.py::test_the_table_of_n_grams",
        "tests/algorithms/counts/test_thresholds.py::test_the_table_of_the_prefix_tree",
        "tests/algorithms/counts/test_thresholds.py::test_the_table_of_diffpart",
        f"{NOISE}::test_a_tree_of_nobody_dies_out_only_by_thresholds_on_its_real_noise",
    ),
    13: (
        f"{NOISE}::test_patterns_survive_three_draws_of_noise",
        f"{NOISE}::test_frequent_itemsets_survive_three_draws_of_noise",
    ),
    14: (
        f"{SERVICES}::test_other_rows_leave_no_other_trace",
        f"{DEBIT}::test_what_was_left_out_shows_nowhere",
    ),
    15: (
        "tests/algorithms/counts/test_toy.py::test_central_without_noise_it_is_the_histogram_tree",
        "tests/algorithms/counts/test_toy.py::test_over_curators_it_is_the_same",
    ),
}


@pytest.mark.parametrize("number", HELD)
def test_a_check_is_held_by_tests_that_there_are(number: int) -> None:
    assert missing(HELD[number]) == []


def test_every_check_of_the_page_is_in_the_table() -> None:
    assert numbers_of(PAGE, "13. Checks") == list(HELD)
