"""A plugin of pytest, `-p helpers.on_postgres`: services store their studies in a PostgreSQL of our own."""

import os
from contextlib import ExitStack

import pytest
from helpers.postgres import cluster
from helpers.serving import POSTGRES

_running = ExitStack()
FILES_ONLY = {  # tests that look into the file, or lock it
    "test_reading_changes_nothing",
    "test_the_service_asks_what_the_library_would_ask",
    "test_asks_of_the_service_follow_from_what_is_recorded",
    "test_a_database_that_fails_is_said_without_its_path",
    "test_a_damaged_study_has_its_place",
    "test_a_failure_that_all_share_names_nobody",
    "test_while_tokens_cannot_be_read_their_holders_are_refused",
    "test_the_dashboard_of_a_file_is_for_whoever_can_read_the_file",
    "test_a_token_is_in_no_file_no_log_no_answer_and_no_list_of_processes",
    "test_the_guide_has_every_metric",
    "test_metrics_say_that_the_file_is_gone_and_that_it_is_back",
    "test_a_folder_that_is_gone_has_no_disk",
}


def pytest_configure(config: pytest.Config) -> None:
    os.environ[POSTGRES] = _running.enter_context(cluster()).url()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.partition("[")[0] in FILES_ONLY:
            item.add_marker(pytest.mark.skip(reason="is about a file"))


def pytest_unconfigure(config: pytest.Config) -> None:
    _running.close()
