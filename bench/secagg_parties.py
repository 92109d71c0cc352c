"""One SecAgg+ round by Flower, run by the interpreter of an environment that has Flower.

    SECAGG_CLIENTS=100 SECAGG_LENGTH=1000 SECAGG_SHARES=25 python secagg_parties.py

Flower's own server workflow and client code hand each other their messages by function call: no
network, no storage, no TLS. Each client adds a vector of ones. Prints one line with seconds.
"""

import json
import logging
import os
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod.secure_aggregation import secaggplus_mod
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.supercore.task_identity import TaskIdentity

CLIENTS = int(os.environ["SECAGG_CLIENTS"])
LENGTH = int(os.environ["SECAGG_LENGTH"])
SHARES = int(os.environ["SECAGG_SHARES"])


def context(node: int) -> Context:
    return Context(1, node, {}, RecordDict(), {})


class Grid:
    """Hands each message to its client, and the answers back."""

    def __init__(self) -> None:
        self.contexts = {node: context(node) for node in range(1, CLIENTS + 1)}

    def send_and_receive(self, messages: Any, **_: Any) -> list[Message]:
        return [self._one(message) for message in messages]

    def _one(self, message: Message) -> Message:
        # Messages share a record that each client takes apart; on a network each has its own.
        records = message.content.config_records
        kept = dict(records.items())
        for name, record in kept.items():
            records[name] = ConfigRecord(dict(record))
        answer = self._answer(message)
        for name, record in kept.items():
            records[name] = record
        return answer

    def _answer(self, message: Message) -> Message:
        return secaggplus_mod(message, self.contexts[message.metadata.dst_node_id], fit)


def fit(message: Message, _: Context) -> Message:
    parameters = ndarrays_to_parameters([np.ones(LENGTH)])
    result = FitRes(Status(Code.OK, ""), parameters, 1, {})
    return Message(compat.fitres_to_recorddict(result, False), reply_to=message)


class Strategy:
    """Asks everybody, and keeps what comes back."""

    found: Any = None

    def configure_fit(self, _round: int, parameters: Any, _manager: Any) -> list[Any]:
        proxies = (SimpleNamespace(node_id=node) for node in range(1, CLIENTS + 1))
        return [(proxy, FitIns(parameters, {})) for proxy in proxies]

    def aggregate_fit(self, _round: int, results: Any, failures: Any) -> Any:
        assert not failures
        self.found = parameters_to_ndarrays(results[0][1].parameters)[0]
        return None, {}


def main() -> None:
    logging.disable(logging.CRITICAL)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    strategy = Strategy()
    manager = SimpleNamespace(num_available=lambda: CLIENTS)
    whole = LegacyContext(context(0), strategy=strategy, client_manager=manager)
    whole.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    empty = compat.parameters_to_arrayrecord(ndarrays_to_parameters([np.zeros(LENGTH)]), False)
    whole.state.array_records[MAIN_PARAMS_RECORD] = empty
    wall, cpu = time.perf_counter(), time.process_time()
    SecAggPlusWorkflow(SHARES, SHARES // 2 + 1, max_weight=1.0)(Grid(), whole)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert np.allclose(strategy.found, 1.0, atol=1e-3)
    print("RESULT" + json.dumps({"wall_s": wall, "cpu_s": cpu}))


if __name__ == "__main__":
    main()
