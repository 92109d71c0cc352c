"""Which test holds which acceptance check of the better methods, and that none was lost.

Spec: utility, section 2. Errors beside peers are printed by `python -m bench.utility`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.docs.checks import ROOT, missing, numbers_of

PAGE: Final = ROOT / "docs" / "spec" / "utility.md"
HERE: Final = "tests/algorithms"
BLOCKS: Final = f"{HERE}/graph_der/test_blocks.py"
FLIP: Final = f"{HERE}/graph_random_matrix/test_flipping.py"
REST: Final = f"{HERE}/set_valued/test_rest.py"
LEVELS: Final = f"{HERE}/kmeans/test_two_level.py"
WINDOW: Final = f"{HERE}/crowd_tasking/test_window.py"
ROOTS: Final = f"{HERE}/sequential_ngram/test_root_row.py"
GRID: Final = f"{HERE}/dpbv_clustering/test_adaptive.py"
PAPER: Final = f"{HERE}/test_paper_as_before.py"
AUDITS: Final = "tests/bench/test_utility_audits.py"
HELD: Final[dict[int, tuple[str, ...]]] = {
    1: (
        f"{BLOCKS}::test_every_flip_of_every_graph_of_five_vertices",
        f"{LEVELS}::test_brute_force_on_a_lattice",
        f"{REST}::test_brute_force_over_four_items",
        f"{HERE}/set_valued/test_rest_over_curators.py::test_brute_force_over_four_items",
        f"{GRID}::test_what_is_spent_is_half_of_epsilon_for_a_record_that_joins",
    ),
    2: (
        f"{FLIP}::test_every_outcome_of_every_graph_of_four_vertices",
        f"{FLIP}::test_all_graphs_of_four_vertices",
        f"{FLIP}::test_a_coin_flips_for_exactly_its_threshold_of_words",
        f"{FLIP}::test_the_threshold_is_the_least_that_keeps_epsilon",
        f"{WINDOW}::test_every_report_of_every_number",
        f"{WINDOW}::test_all_subsets",
        f"{WINDOW}::test_a_hybrid_needs_some_budget",
    ),
    3: (
        f"{AUDITS}::test_what_is_proved",
        f"{AUDITS}::test_no_release_tells_more_than_epsilon",
        f"{BLOCKS}::test_a_release_has_the_noise_of_its_scales",
        f"{REST}::test_a_release_has_the_noise_of_its_scales",
    ),
    4: (
        f"{BLOCKS}::test_planted_faults_are_found",
        f"{LEVELS}::test_planted_faults_are_found",
        f"{REST}::test_planted_faults_are_found",
        f"{REST}::test_items_cut_in_order_of_how_often_they_are_would_be_found",
        f"{FLIP}::test_flips_from_both_ends_are_found",
        f"{WINDOW}::test_clipping_at_the_ends_would_be_found",
        f"{AUDITS}::test_what_is_proved",
        f"{AUDITS}::test_no_release_tells_more_than_epsilon",
    ),
    5: (
        f"{FLIP}::test_up_to_where_auto_flips",
        f"{FLIP}::test_the_eigenvalue_that_is_needed",
        f"{FLIP}::test_the_choice_reads_public_numbers_only",
        f"{LEVELS}::test_the_examples_of_the_rule",
        f"{LEVELS}::test_a_hint_that_is_far_too_large",
        f"{REST}::test_the_choice_is_by_the_size_of_the_universe",
        f"{WINDOW}::test_what_runs",
        f"{GRID}::test_when_it_runs",
        f"{BLOCKS}::test_the_report_says_what_was_spent_on_what",
        f"{PAPER}::test_paper_refuses_each_new_name",
        f"{PAPER}::test_the_sources_method_is_what_it_was",
        f"{HERE}/counts/test_golden.py::test_a_seeded_central_result_is_byte_identical",
    ),
    6: (
        f"{FLIP}::test_the_forecast_on_real_graphs",
        f"{LEVELS}::test_the_forecast_of_the_smallest_cluster",
        f"{LEVELS}::test_a_small_cluster_gets_a_centre",
        f"{REST}::test_the_forecast_of_an_item",
        f"{WINDOW}::test_the_table",
        f"{WINDOW}::test_the_worst_deviation_is_the_forecast",
        f"{WINDOW}::test_the_deviation_of_an_empty_bucket",
        f"{BLOCKS}::test_the_forecast_of_a_rectangle",
    ),
    7: (
        f"{BLOCKS}::test_what_comes_out_is_a_simple_graph",
        f"{BLOCKS}::test_as_many_edges_as_before",
    ),
    8: (
        f"{HERE}/graph_der/test_federated.py::"
        "test_five_hundred_curators_open_the_counts_of_the_whole_graph",
        f"{LEVELS}::test_over_curators_as_over_stored_rows",
        f"{HERE}/set_valued/test_rest_over_curators.py::"
        "test_over_curators_the_counts_are_those_of_one_keeper",
        f"{HERE}/crowd_tasking/test_bounded_reports.py::test_over_curators_as_over_stored_rows",
        f"{GRID}::test_over_curators_the_centres_are_those_of_stored_rows",
    ),
    9: (
        f"{FLIP}::test_three_million_vertices_are_refused_before_spending",
        f"{BLOCKS}::test_ten_million_vertices",
        f"{ROOTS}::test_joins_above_the_cap_are_the_most_frequent",
        f"{ROOTS}::test_joins_above_the_cap_end_in_bounded_memory",
    ),
    10: (
        f"{BLOCKS}::test_what_comes_out_is_a_simple_graph",
        f"{FLIP}::test_tiny_graphs",
        f"{REST}::test_few_records_are_legal",
        f"{LEVELS}::test_odd_tables",
        f"{GRID}::test_an_evaluation_and_odd_tables",
        f"{HERE}/test_small_datasets.py::test_few_rows_are_answered",
        f"{ROOTS}::test_one_record_over_many_items",
    ),
    11: (f"{FLIP}::test_what_is_drawn_does_not_depend_on_the_graph",),
}


@pytest.mark.parametrize("number", HELD)
def test_a_check_is_held_by_tests_that_there_are(number: int) -> None:
    assert missing(HELD[number]) == []


def test_every_check_of_the_page_is_in_the_table() -> None:
    assert numbers_of(PAGE, "2. Checks") == list(HELD)
