"""Durable execution on DBOS: a firing is a workflow, and each step of it is done once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types.errors import MissingExtra
from .queue import WorkItem

if TYPE_CHECKING:
    from .database import Connection, Engine

FIRINGS_QUEUE = "metier-schedules"
FIRING_WORKFLOW = "metier.fire"
WORKFLOW_VERSION = "metier-1"
"""Workflows of one version are taken over by workers of the same; it grows when stored steps change their meaning."""


class QueueBinding(NamedTuple):
    """A queue, the workflow that its entries are, and what a worker does with each."""

    queue: str
    workflow: str
    work: Callable[[WorkItem], None]
    concurrency: int
    poll: float


class DurableExecutor:
    """DBOS, once it is launched: there is one in a process.  To put work into a queue it need not be."""

    def __init__(self, engine: Engine, worker: str) -> None:
        self._engine, self.worker = engine, worker
        self._dbos: Any = None

    def launch(self, bindings: Sequence[QueueBinding]) -> None:
        """Begin to take work from queues."""
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
                "log_level": "CRITICAL",
                "use_listen_notify": False,
                "max_executor_threads": sum(binding.concurrency for binding in bindings) + 8,
            }
        )
        for binding in bindings:
            _register_workflow(DBOS, binding)
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
        self, connection: Connection, item: WorkItem, workflow: str = FIRING_WORKFLOW, queue: str = FIRINGS_QUEUE
    ) -> None:
        """Put a piece of work into a queue, in a transaction of the caller's; the same one twice is one."""
        self._client.enqueue_in_transaction(
            connection,
            {"workflow_name": workflow, "queue_name": queue, "workflow_id": item.id, "app_version": WORKFLOW_VERSION},
            item.schedule,
            item.due,
        )

    def step(self, name: str, work: Callable[[], object]) -> object:
        """Do something once.  Its result is stored as JSON, and comes from the store after a crash."""
        return self._dbos.run_step({"name": name}, work)

    def look_every(self, seconds: float) -> None:
        """How often workers look into the queue; it is one number for all that share the database."""
        self._dbos.retrieve_queue(FIRINGS_QUEUE).set_polling_interval_sec(seconds)

    def take_over(self, worker: str) -> None:
        """Put what a dead worker had begun back into the queue; what DBOS has for that is not public."""
        self._dbos._recover_pending_workflows([worker])

    def cancel(self, item: WorkItem) -> None:
        self._dbos.cancel_workflow(item.id)

    def clear(self, before_ms: int) -> int:
        """Forget workflows that ended before a time; the book has kept how."""
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
        """Take no more work, and wait so long for what is at work."""
        self._dbos.destroy(workflow_completion_timeout_sec=seconds, destroy_registry=True)


def _register_workflow(dbos: Any, binding: QueueBinding) -> None:
    @dbos.workflow(name=binding.workflow, max_recovery_attempts=None)  # type: ignore[untyped-decorator]
    def workflow(name: str, number: int) -> None:
        binding.work(WorkItem(name, number))


def _iso_time(stamp: int) -> str:
    from .store import instant_of

    return instant_of(stamp).isoformat()
