"""Which test holds which acceptance check of keys, and that none was lost.

Spec: keys, section 9. What only a measurement shows is printed by `python -m bench.keys`.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.docs.checks import ROOT, missing, numbers_of

PAGE: Final = ROOT / "docs" / "spec" / "keys.md"
BENCH: Final = "bench/keys.py::run"
HELD: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "tests/tacit/protocol/test_sessions.py::test_every_field_of_the_statement_is_in_the_key",
        "tests/tacit/crypto/test_seal_keys.py::"
        "test_the_working_groups_vector_opens_with_a_key_made_as_ours",
        "tests/tacit/crypto/test_seal_keys.py::test_one_bit_anywhere_breaks_the_seal",
    ),
    2: (
        "tests/tacit/protocol/test_sessions.py::test_both_ends_have_one_key_and_each_session_its_own",
        "tests/tacit/protocol/test_sessions.py::test_a_lie_is_refused",
        "tests/tacit/protocol/test_sessions.py::"
        "test_a_stolen_encapsulation_does_not_open_for_the_thief",
        "tests/tacit/protocol/test_sessions.py::test_another_seal_key_opens_nothing",
        "tests/tacit/crypto/test_seal_keys.py::test_another_keys_half_does_not_open_it",
        "tests/tacit/crypto/test_seal_keys.py::test_other_bytes_are_no_key",
        "tests/tacit/crypto/test_seal_keys.py::test_a_sender_of_an_x25519_half_of_zeros_is_refused",
        "tests/aggregator/pieces/test_sessions.py::"
        "test_a_session_that_is_not_the_partys_own_begins_nothing",
        "tests/aggregator/pieces/test_sessions.py::test_a_session_of_another_length_is_no_session",
    ),
    3: (
        "tests/adversary/test_break_x25519_later.py::"
        "test_a_piece_opens_for_who_breaks_both_halves_only",
    ),
    4: (
        "tests/adversary/test_open_a_round_after_its_key.py::"
        "test_nothing_that_can_be_seized_opens_a_round_after_its_key",
        "tests/adversary/test_open_a_round_after_its_key.py::"
        "test_a_reader_delays_the_log_and_gives_no_key",
        "tests/adversary/test_find_pieces_in_the_files.py::"
        "test_what_a_curator_sent_is_in_none_of_its_files",
        "tests/aggregator/sealing/test_crash.py::test_a_destruction_that_is_killed_is_finished",
        "tests/aggregator/rounds/test_key_sweep.py::test_no_deadline_keeps_a_periods_key",
    ),
    5: (
        "tests/e2e/test_crashes.py::test_a_killed_service_spoils_nothing",
        "tests/curator/participation/test_sessions.py::"
        "test_an_unknown_session_is_answered_by_the_same_sealed_bytes",
        "tests/curator/participation/test_sessions.py::"
        "test_after_a_restart_the_same_bytes_with_the_announcement",
    ),
    6: (
        "tests/tacit/crypto/test_hybrid_signing.py::test_a_half_alone_is_never_enough",
        "tests/e2e/test_lasting_seals.py::test_what_an_aggregator_shows_is_checked",
    ),
    7: (
        "tests/adversary/test_invent_a_transcript.py::"
        "test_invented_aggregators_are_not_those_of_the_trust_file",
        "tests/adversary/test_invent_a_transcript.py::"
        "test_without_a_trust_file_the_invention_is_in_order_and_not_anchored",
        "tests/adversary/test_invent_a_transcript.py::"
        "test_a_changed_figure_is_not_what_the_aggregators_committed_to",
    ),
    8: (
        "tests/adversary/test_get_budget_back_by_a_restore.py::"
        "test_a_restored_aggregator_does_not_vouch_for_what_it_forgot",
        "tests/adversary/test_get_budget_back_by_a_restore.py::"
        "test_a_round_that_stayed_open_earns_the_credit",
        "tests/aggregator/rounds/test_restoring.py::"
        "test_a_database_put_back_without_the_marker_is_recognised_by_its_seal_keys",
    ),
    9: (
        "tests/adversary/test_a_second_answer_after_a_restore.py::"
        "test_no_curator_answers_what_is_not_opened_yet",
        "tests/adversary/test_a_second_answer_after_a_restore.py::"
        "test_no_curator_reports_to_what_is_not_opened_yet",
        "tests/adversary/test_a_second_answer_after_a_restore.py::"
        "test_no_aggregator_opens_what_is_not_opened_yet",
        "tests/adversary/test_a_second_answer_after_a_restore.py::"
        "test_a_round_that_was_dated_after_the_restore",
    ),
    10: (
        "tests/e2e/test_identity_rotation.py::test_a_planned_rotation_while_rounds_run",
        "tests/e2e/test_identity_rotation.py::test_a_compromised_identity_ends_at_once",
        "tests/e2e/test_identity_rotation.py::"
        "test_two_successors_are_a_fork_until_a_person_confirms_one",
        "tests/e2e/test_identity_rotation.py::"
        "test_curators_refuse_a_fork_until_their_operator_confirms",
        "tests/e2e/test_coordinator_rotation.py::test_a_planned_rotation_while_rounds_run",
        "tests/e2e/test_coordinator_rotation.py::test_a_compromised_identity_ends_at_once",
        "tests/e2e/test_coordinator_rotation.py::test_who_steals_the_running_key_gets_no_further",
        "tests/e2e/test_coordinator_rotation.py::"
        "test_two_successors_are_a_fork_until_a_person_confirms_one",
        "tests/e2e/test_coordinator_rotation.py::test_a_job_and_an_upload_go_on",
        "tests/e2e/test_coordinator_rotation.py::test_a_revoked_identity_opens_nothing_more",
        "tests/e2e/test_identity_rotation.py::test_a_revoked_identity_opens_nothing_more",
        "tests/e2e/test_party_rotation.py::"
        "test_parties_follow_while_rounds_run_and_aggregators_are_away",
        "tests/e2e/test_party_rotation.py::"
        "test_a_stolen_key_and_token_end_in_a_fork_and_the_operators_help",
        "tests/e2e/test_party_rotation.py::"
        "test_after_a_theft_parties_renew_the_tokens_that_were_ended",
        "tests/e2e/test_token_renewal.py::"
        "test_a_round_goes_on_though_all_aggregators_end_the_coordinators_token",
        "tests/e2e/test_token_renewal.py::"
        "test_a_compromised_aggregator_ends_tokens_and_all_renew_them",
        "tests/cli/test_gone_services.py::test_what_was_kept_ends_an_aggregator_that_is_gone",
        "tests/examples/test_constrained_curator.py::"
        "test_a_device_replaces_its_key_though_an_aggregator_is_away",
        "tests/e2e/test_party_rotation_killed.py::test_a_killed_curator_service_goes_on",
        "tests/cli/test_restored_identity.py::"
        "test_a_backup_of_before_goes_on_by_the_pair_that_replaced_it",
        "tests/coordinator/registry/test_own_identity_killed.py::"
        "test_a_replacement_that_is_killed_is_finished_by_the_same_command",
        "tests/aggregator/rounds/test_identity_ends.py::"
        "test_a_rotation_that_is_killed_is_finished_by_the_same_command",
        "tests/coordinator/registry/test_identity_put_back.py::"
        "test_a_store_of_before_a_replacement_does_not_start",
        "tests/tacit/protocol/test_identities.py::test_a_chain_of_ten_links_is_followed_in_any_order",
    ),
    11: (
        "tests/coordinator/resealing/test_killed.py::test_rotations_survive_fifty_kills",
        "tests/coordinator/resealing/test_rotation.py::"
        "test_everything_is_sealed_anew_and_the_old_key_is_destroyed",
    ),
    12: (
        "tests/aggregator/roster/test_peers.py::"
        "test_no_round_is_opened_beside_an_invented_aggregator",
    ),
    13: (BENCH,),
    14: (
        "tests/adversary/test_open_a_round_after_its_key.py::"
        "test_no_log_metric_or_problem_holds_a_secret",
        "tests/e2e/test_taint.py::test_nothing_private_is_said",
    ),
}


@pytest.mark.parametrize("number", HELD)
def test_a_check_is_held_by_tests_that_there_are(number: int) -> None:
    assert missing(HELD[number]) == []


def test_every_check_of_the_page_is_in_the_table() -> None:
    assert numbers_of(PAGE, "9. Acceptance checks") == list(HELD)
