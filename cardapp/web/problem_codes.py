"""Describes the codes that are more specific than the class of an error, for the API description."""

from __future__ import annotations

DESCRIBED = {
    # -- the session's choice, its card and its copy ---------------------------------------------------------------
    "bad_choice": "The file that names the chosen session cannot be read.",
    "card_unreadable": "The session cannot read its card's source.",
    "identity_mismatch": "The session or the request has another card, or another revision of it, than is served.",
    "not_copied": "The session uses the card's own files, so there is no copy to restore.",
    "not_restored": "A file of the card is too large or unreadable, so its copy is not restored.",
    "sources_unusable": "The session's copy of the sources cannot be used.",
    "unknown_source": "The session's copy has no such source file.",
    "bad_content": "The content of a source file is not base64.",
    # -- the guard of an activation --------------------------------------------------------------------------------
    "binding_mismatch": "The chosen session is not the one that the request expects.",
    "container_changed": "The session was restarted, stopped or replaced during the replay.",
    "mcp_socket_changed": "The session's socket was replaced, or its connection was lost, during the replay.",
    "source_changed": "The card's source was changed during the replay, or differs from the served one.",
    "stale_generation": "The generation is not greater than the last one.",
    "cancelled_by_request": "A client cancelled the replay.",
    "nothing_running": "No replay runs, so there is nothing to cancel.",
    "stopping": "The service is stopping.",
    # -- a replay in the session -----------------------------------------------------------------------------------
    "ambiguous_function": "Several functions have the name of the stop.",
    "bad_condition": "The condition of the stop cannot be evaluated.",
    "bad_expression": "An expression assigns a value or calls a function.",
    "bad_recipe": "The allocator's recipe or the stop's file is invalid.",
    "build_failed": "The session could not build the program; `failure.build` has the compiler's messages.",
    "cancelled": "The session ended the replay, because its caller cancelled it or a reset began.",
    "debugger_dead": "gdb has ended; the next replay or reset starts it again.",
    "editor_dead": "Neovim has ended; the next replay or reset starts it again.",
    "interrupted": "The program was interrupted or ended during the replay.",
    "no_input": "The file of the program's standard input is missing.",
    "not_recorded": "The line of the stop was not looked up yet.",
    "replay_timeout": "The program did not reach the stop in time; `failure.program` says where it was.",
    "source_drift": "The line of the stop does not hold the card's text; `failure.source` has both.",
    "stop_not_reached": "The program has no code at the stop.",
    "target_crashed": "A signal ended the program before the stop; `failure.program` says where.",
    "target_exited": "The program exited before the stop; `failure.program` has its exit code.",
    "unknown_run": "The card has no such run.",
    # -- other tools of the session --------------------------------------------------------------------------------
    "busy": "Too many calls run at once.",
    "command_refused": "gdb refused the command.",
    "editor_refused": "Neovim reported an error.",
    "invalid_arguments": "The session and the service are of different releases: restart the session.",
    "pane_failed": "The session's terminal does not answer.",
    "program_not_running": "There is no program to move.",
    # -- the record of events --------------------------------------------------------------------------------------
    "not_withdrawable": "The event is of a kind that cannot be withdrawn.",
    "already_withdrawn": "The event is already withdrawn.",
    # -- the learners ----------------------------------------------------------------------------------------------
    "replay_running": "A replay runs, so the learner cannot be changed now.",
    "learner_named": "The current record has a name already.",
    # -- the stored state ------------------------------------------------------------------------------------------
    "state_cannot_open": "The database cannot be opened.",
    "state_damaged": "The database is damaged: the rest is read, and nothing is stored.",
    "state_disk_full": "The disk is full, and nothing was stored.",
    "state_io_error": "Reading or writing the disk failed.",
    "state_locked": "Another process has locked the database.",
    "state_read_only": "The state cannot be written.",
}
"""What each code means, in one sentence. A class of errors has its description in its own docstring."""
