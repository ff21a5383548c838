"""Durable execution on DBOS: a queue entry is a workflow, and each of its steps is done once.

A run is a sequence of steps: each reply of the model, each call of a tool, the delivery of the result.  DBOS stores the
result of a step as it ends.  A worker that takes over after a crash calls the same function from its beginning, and
every step that has a stored result returns it instead of running, so the run continues where it stopped.  The step that
was interrupted runs again: no store can tell whether its effect took place, so a run that must not repeat one uses
`after_crash = "at-most-once"`, which reports it as lost.  Snapshots of the process were refused, since they bind a run
to one machine and one version.  DBOS rather than Temporal or Celery: it is a library on the database that schedules
need anyway, with no server to run, and it enqueues within the caller's transaction.

The id of a workflow is the id of its entry, so entering the same work twice, from any machine, is one workflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..types.errors import MissingExtra
from .database import database_errors

if TYPE_CHECKING:
    from .database import Connection, Engine

FIRINGS_QUEUE = "metier-schedules"
FIRING_WORKFLOW = "metier.fire"
WORKFLOW_VERSION = "metier-1"
"""Workers take over only workflows of their own version; it changes when stored steps change their meaning."""


class QueueEntry(Protocol):
    """A piece of work in a queue."""

    @property
    def id(self) -> str:
        """The id of its workflow, the same on every machine."""

    @property
    def arguments(self) -> tuple[str, int]:
        """What its workflow is called with; stored, so it must not change its meaning."""


class QueueBinding(NamedTuple):
    """A queue, the workflow of its entries, and the function that does one, given its arguments."""

    queue: str
    workflow: str
    work: Callable[[str, int], None]
    concurrency: int
    poll: float


class DurableExecutor:
    """DBOS, of which a process has one.  Only taking work needs `launch`; entering it does not."""

    def __init__(self, engine: Engine, worker: str) -> None:
        self._engine, self.worker = engine, worker
        self._dbos: Any = None

    def launch(self, bindings: Sequence[QueueBinding]) -> None:
        """Start taking work from queues."""
        try:
            from dbos import DBOS, DBOSPortableJSONSerializer
        except ImportError:
            raise MissingExtra("a daemon", "schedule") from None
        DBOS(
            config={
                "name": "metier",
                "system_database_engine": self._engine,
                "application_version": WORKFLOW_VERSION,
                "executor_id": self.worker,
                "serializer": DBOSPortableJSONSerializer(),
                "log_level": "CRITICAL",  # failures are in the store; DBOS would print each of them as well
                "use_listen_notify": False,  # nothing here waits for a message; fixed once the database exists
                "max_executor_threads": sum(binding.concurrency for binding in bindings) + 8,  # 8 for its own work
            }
        )
        for binding in bindings:
            _register_workflow(DBOS, binding)
        # DBOS takes this only before launch.
        DBOS.listen_queues([binding.queue for binding in bindings])
        DBOS.launch()
        for binding in bindings:
            DBOS.register_queue(
                binding.queue,
                worker_concurrency=binding.concurrency,
                polling_interval_sec=binding.poll,
                on_conflict="always_update",
            )
        self._dbos = DBOS

    @cached_property
    def _client(self) -> Any:
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        json = DBOSPortableJSONSerializer()
        return DBOSClient(system_database_engine=self._engine, serializer=json, application_name="metier")

    def enqueue(
        self, connection: Connection, entry: QueueEntry, workflow: str = FIRING_WORKFLOW, queue: str = FIRINGS_QUEUE
    ) -> None:
        """Enter work into a queue within the caller's transaction; entering it twice has no effect."""
        self._client.enqueue_in_transaction(
            connection,
            {"workflow_name": workflow, "queue_name": queue, "workflow_id": entry.id, "app_version": WORKFLOW_VERSION},
            *entry.arguments,
        )

    def step(self, name: str, work: Callable[[], object]) -> object:
        """Do something once: its result is stored as JSON, and returned from the store after a crash.

        Where the store fails, the same step can be tried again.
        """
        from dbos._context import get_local_dbos_context

        context = get_local_dbos_context()
        number = context.function_id if context is not None else 0
        try:
            return self._dbos.run_step({"name": name}, work)
        except database_errors():
            # DBOS numbers steps as they are called: another number would be another step to whoever takes over.
            if context is not None:
                context.function_id = number
            raise

    def look_every(self, seconds: float) -> None:
        """Set how often the queue is polled, by all workers that share the database."""
        self._dbos.retrieve_queue(FIRINGS_QUEUE).set_polling_interval_sec(seconds)

    def take_over(self, worker: str) -> None:
        """Put the workflows of a dead worker back into the queue.  DBOS has no public function for it."""
        self._dbos._recover_pending_workflows([worker])

    def cancel(self, entry: QueueEntry) -> None:
        self._dbos.cancel_workflow(entry.id)

    def clear(self, before_ms: int) -> int:
        """Delete workflows that ended before a time; the store has their outcomes."""
        workflows = self._dbos.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED"],
            end_time=_iso_time(before_ms),
            limit=1_000,
            load_input=False,
            load_output=False,
        )
        ids = [workflow.workflow_id for workflow in workflows]
        if ids:
            self._dbos.delete_workflows(ids)
        return len(ids)

    def close(self, seconds: int) -> None:
        """Stop taking work, and wait so many seconds for what is running."""
        self._dbos.destroy(workflow_completion_timeout_sec=seconds, destroy_registry=True)


def _register_workflow(dbos: Any, binding: QueueBinding) -> None:
    # No limit on recoveries: workers that are restarted often are no reason to give up a run.
    @dbos.workflow(name=binding.workflow, max_recovery_attempts=None)  # type: ignore[untyped-decorator]
    def workflow(name: str, number: int) -> None:
        binding.work(name, number)


def _iso_time(stamp: int) -> str:
    from .store import instant_of

    return instant_of(stamp).isoformat()
