"""Which test holds which acceptance check of proved contributions, and that none was lost.

Spec: validity, section 17. What only a measurement shows is printed by `python -m bench.validity`
and `python -m bench.proofs`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.docs.checks import ROOT, missing, numbers_of

PAGE: Final = ROOT / "docs" / "spec" / "validity.md"
ENGINE: Final = "tests/tacit/validity"
LIES: Final = f"{ENGINE}/test_lies.py"
FUNCTIONS: Final = f"{ENGINE}/test_functions.py"
PROTOCOL: Final = "tests/tacit/protocol/test_verification.py"
AGGREGATOR: Final = "tests/aggregator/rounds/test_verifying.py"
KEYS: Final = "tests/aggregator/rounds/test_keying.py"
COORDINATOR: Final = "tests/coordinator/rounds/test_verifying.py"
CURATOR: Final = "tests/curator/participation/test_proved.py"
AS_AGGREGATOR: Final = "tests/adversary/test_lie_as_an_aggregator.py"
AS_CURATOR: Final = "tests/adversary/test_lie_about_a_contribution.py"
TWO_POINTS: Final = "tests/adversary/test_open_a_contribution_at_two_points.py"
LIMITS: Final = f"{ENGINE}/test_limits.py"
SERVICES: Final = "tests/e2e/test_proved_rounds.py"
HELD: Final[dict[int, tuple[str, ...]]] = {
    1: (
        f"{ENGINE}/test_prio3.py::test_the_draft_s_vectors",
        f"{ENGINE}/test_prio3.py::test_the_draft_s_bad_contributions_are_refused_where_it_says",
        f"{ENGINE}/test_xof.py::test_the_draft_s_vector",
        f"{ENGINE}/test_frozen.py::test_the_bytes_of_our_circuits_stay",
        f"{ENGINE}/test_compiled.py::test_ten_thousand_random_sums",
        f"{ENGINE}/test_field.py::test_operations_are_those_of_the_integers",
    ),
    2: (
        f"{FUNCTIONS}::test_every_value_of_a_sum_is_accepted",
        f"{FUNCTIONS}::test_every_pair_of_a_mean_is_accepted",
        f"{FUNCTIONS}::test_all_readings_of_a_variance_are_accepted",
        f"{FUNCTIONS}::test_every_presence_is_accepted_with_noise_too",
        f"{FUNCTIONS}::test_of_all_bits_of_a_mean_exactly_the_allowed_pairs_come_out",
        f"{FUNCTIONS}::test_totals_of_parts_are_the_totals_of_lone_proofs",
    ),
    3: (
        f"{LIES}::test_elements_that_are_no_bits_are_refused",
        f"{LIES}::test_what_is_made_of_bits_but_not_allowed_is_refused",
        f"{LIES}::test_one_flipped_bit_anywhere_is_refused",
        f"{LIES}::test_an_aggregator_that_is_shown_something_else_does_not_accept",
        f"{LIES}::test_all_aggregators_in_another_round_refuse",
        f"{LIES}::test_joint_randomness_and_proof_of_another_measurement_are_refused",
        f"{LIES}::test_two_hundred_guesses_are_refused",
        f"{LIES}::test_a_point_that_is_a_root_is_refused_though_its_shares_are_zero",
        f"{LIES}::test_words_from_the_prime_on_are_told_at_acceptance_and_refused_later",
        f"{PROTOCOL}::test_what_cannot_all_be_true_is_named",
        f"{AS_CURATOR}::test_a_lie_that_only_joint_randomness_shows_is_not_counted",
        f"{AS_CURATOR}::test_what_is_no_field_element_or_too_long_is_not_taken",
    ),
    4: (
        "tests/e2e/test_two_thousand_liars.py::"
        "test_all_of_them_are_named_and_the_sum_of_the_others_is_exact",
        f"{SERVICES}::test_every_function",
        f"{SERVICES}::test_every_layer",
        f"{SERVICES}::test_each_liar_reads_that_its_proof_was_refused",
        f"{COORDINATOR}::test_five_aggregators_many_curators_seven_liars_and_a_host",
        f"{AS_CURATOR}::test_a_host_lies_for_a_whole_part_and_loses_it",
    ),
    5: (
        "tests/e2e/test_crashes.py::test_a_killed_service_spoils_no_proved_round",
        f"{AGGREGATOR}::test_killed_while_it_verifies_it_makes_the_same_shares",
        f"{AGGREGATOR}::test_no_sum_without_noise_is_in_the_store",
        f"{COORDINATOR}::test_a_restarted_coordinator_goes_on_in_the_middle",
        f"{KEYS}::test_a_key_is_fixed_once",
    ),
    6: (
        f"{KEYS}::test_nothing_is_taken_before_the_key",
        f"{KEYS}::test_a_key_is_fixed_once",
        f"{AGGREGATOR}::test_steps_come_in_their_order_and_repeat_their_bytes",
        f"{AGGREGATOR}::test_another_s_chunk_has_its_place_and_length",
        f"{AS_AGGREGATOR}::test_what_the_coordinator_passes_on_wrongly_is_not_taken",
        f"{AS_AGGREGATOR}::test_no_commitment_before_the_verdict",
        f"{TWO_POINTS}::test_no_sequence_of_requests_shows_two",
        f"{PROTOCOL}::test_all_commitments_name_one_offset_of_the_query",
    ),
    7: (
        f"{AS_AGGREGATOR}::test_zeros_for_shares_drop_all_and_show_nothing",
        f"{AS_AGGREGATOR}::test_shares_of_a_wrong_length_name_who_signed_them",
        f"{AS_AGGREGATOR}::test_two_verifications_give_two_verdicts_that_say_so",
        f"{AS_AGGREGATOR}::test_two_verdicts_stop_the_round_before_anything_is_opened",
        f"{COORDINATOR}::test_different_keys_end_a_round_before_any_curator_sees_it",
    ),
    8: (
        f"{TWO_POINTS}::test_two_points_show_the_value_and_one_shows_nothing",
        f"{TWO_POINTS}::test_no_sequence_of_requests_shows_two",
        f"{TWO_POINTS}::test_a_backup_of_a_frozen_round_verifies_nothing",
        f"{ENGINE}/test_proof.py::test_one_point_shows_nothing_of_a_bit_and_two_show_it",
        f"{ENGINE}/test_proof.py::test_honest_aggregators_led_to_different_keys_show_nothing",
    ),
    9: (
        "tests/tacit/accounting/test_clamping.py::"
        "test_what_is_verified_is_never_below_the_clamped_mechanisms_own_delta",
        "tests/tacit/accounting/test_clamping.py::"
        "test_a_bound_near_twice_the_scale_costs_what_the_specification_says",
        f"{ENGINE}/test_noise_bound.py::test_the_bound_is_never_below_the_exact_tail_s",
        f"{ENGINE}/test_noise_bound.py::test_every_machine_finds_the_same_bounds",
        f"{ENGINE}/test_noise_bound.py::test_the_default_tail_adds_next_to_nothing",
    ),
    10: (
        f"{FUNCTIONS}::test_what_is_opened_has_the_sensitivity_that_noise_is_calibrated_for",
        f"{FUNCTIONS}::test_the_squares_that_are_opened_move_by_the_square_of_a_reading",
        f"{FUNCTIONS}::"
        "test_an_accepted_contribution_moves_a_total_by_its_influence_at_most_and_some_does",
        f"{FUNCTIONS}::"
        "test_against_zeros_an_accepted_contribution_reaches_its_influence_and_no_further",
    ),
    11: (
        f"{CURATOR}::test_bodies_have_one_size_whatever_is_in_them",
        "tests/tacit/protocol/test_proved_pieces.py::test_lengths_are_those_of_the_specification",
        "tests/e2e/test_independence.py::"
        "test_an_aggregator_books_the_same_whatever_the_curators_measured",
        "tests/e2e/test_independence.py::test_silence_has_the_size_and_the_moment_of_speech",
    ),
    12: (
        f"{LIMITS}::test_queries_at_a_limit_pass_and_one_unit_beyond_is_refused",
        f"{LIMITS}::test_a_mean_wraps_exactly_beyond_its_limit",
        f"{LIMITS}::test_a_variance_does_not_wrap_within_its_limit",
        f"{LIMITS}::test_a_vector_does_not_wrap_within_its_limit_and_does_beyond",
        "tests/tacit/query/test_proofs.py::"
        "test_the_total_of_a_round_stays_within_half_of_the_field",
    ),
    13: (
        f"{SERVICES}::test_every_layer",
        f"{AGGREGATOR}::test_a_refusal_that_leaves_two_sums_one_curator_apart_is_not_committed",
    ),
    14: ("bench/validity.py::main", "bench/proofs.py::hosted", "bench/proofs.py::lone"),
}


@pytest.mark.parametrize("number", HELD)
def test_a_check_is_held_by_tests_that_there_are(number: int) -> None:
    assert missing(HELD[number]) == []


def test_every_check_of_the_page_is_in_the_table() -> None:
    assert numbers_of(PAGE, "17. Checks") == list(HELD)
