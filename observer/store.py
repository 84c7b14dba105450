"""Holds the current fleet: takes observations in as they come and makes the report of any instant.

Everything here runs on the event loop without awaiting, so each change is atomic. What an observation means is decided
in `observer.fleet`; this module only keeps the result, for exactly the targets that exist now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec
import numpy as np

from observer import fleet
from observer.clock import Clock
from observer.fleet import Policy, Record, members, same_program
from observer.last_read import LastRead
from observer.measure.budget import LayoutBudget
from observer.measure.exposition import Limits, Reader
from observer.measure.extract import Extractor, Frame, Unreadable
from observer.measure.merging import Counted
from observer.measure.packed import pack
from observer.measure.window import Chain, ChainLimits
from router_contract import catalog
from router_contract.readings import Histogram, Instant, Moment, ScrapeFailed
from router_contract.targets import Component, Deployment, DeploymentKey, Member, Target, TargetKey
from router_contract.verdicts import DeploymentReport, TargetReport, TargetStatus
from router_contract.vocabulary import Vocabulary

OPENMETRICS = "application/openmetrics-text"


class Tally(Protocol):
    """Counts what reading costs and gives."""

    def scraped(
        self, source: str, result: str, duration_seconds: float, body_bytes: int, parse_seconds: float | None
    ) -> None:
        """One read ended; ``parse_seconds`` is ``None`` when nothing was parsed."""
        ...

    def discarded(self, reason: str, samples: int) -> None:
        """Samples of wanted families were dropped."""
        ...


_Kind = tuple[Component, str, str | None, str | None]
"""What one extractor reads: component, software, version, model."""
_EXTRACTORS = 256
"""How many extractors are kept: versions are texts that programs tell, so their number must not grow for ever."""
_SHOWN = 256
"""Targets whose values are kept as they were made, until their next read: one takes 0.2 MB, ten times what it was read as."""

NextDue = Callable[[TargetKey], tuple[float | None, bool]]
"""When a target is read next (mono seconds, ``None`` when not scheduled), and whether it is left out."""


class Store:
    """The one mutable cell: deployments, and a record for each of their targets."""

    def __init__(self, clock: Clock, policy: Policy, limits: Limits, tally: Tally) -> None:
        self._clock = clock
        self.policy = policy
        self._limits = limits
        self._chain = ChainLimits(window_seconds=policy.span, links=policy.links)
        self._tally = tally
        self._deployments: dict[DeploymentKey, Deployment] = {}
        self._records: dict[TargetKey, Record] = {}
        self._members: dict[TargetKey, Member] = {}
        self._extractors: dict[_Kind, Extractor] = {}
        self._readers: dict[object, Reader] = {}
        self.layouts = LayoutBudget()
        self._told_versions: dict[tuple[DeploymentKey, str], str] = {}
        self._departed: dict[DeploymentKey, dict[str, dict[str, Histogram]]] = {}
        self._shown: dict[TargetKey, Record] = {}
        self.unknown: dict[str, str] = {}
        self.handed: dict[TargetKey, LastRead] = {}
        """What another replica read last; a target of it that begins here goes on from there."""
        self.kept: dict[TargetKey, LastRead] | None = None
        """While it is a table: the last body of each target, for the next owner."""

    def set_deployments(self, deployments: Iterable[Deployment], now: Instant) -> None:
        """The deployments that exist now. Records of targets that are gone are dropped with everything they held."""
        found = {deployment.key: deployment for deployment in deployments}
        targets = {target.key: target for deployment in found.values() for target in deployment.targets()}
        self._note_departed(found, targets)
        self.unknown = {}
        self._records = {key: self._record(key, target, now) for key, target in targets.items()}
        self._shown = {key: record for key, record in self._shown.items() if key in self._records}
        self._members = {
            TargetKey(deployment.key, member.uid, component, member.metrics.port): member
            for deployment in found.values()
            for component, member in members(deployment)
            if member.metrics is not None
        }
        self._adopt_lives()
        for key in [key for key in self.handed if key in self._records]:
            self._continue(key, self.handed.pop(key))
        alive = {(key.deployment, key.member_uid) for key in targets}
        self._told_versions = {each: version for each, version in self._told_versions.items() if each in alive}
        self._deployments = dict(sorted(found.items()))

    def _note_departed(self, found: dict[DeploymentKey, Deployment], targets: dict[TargetKey, Target]) -> None:
        """Keep what members that leave had counted, for as long as their deployment exists."""
        self._departed = {key: roles for key, roles in self._departed.items() if key in found}
        for key, record in self._records.items():
            stays = key in targets and same_program(record.target, targets[key])
            if not stays and key.deployment in found and record.target.component is Component.ENGINE:
                roles = self._departed.setdefault(key.deployment, {})
                role = record.target.role
                roles[role] = fleet.counted([record], roles.get(role, {}))

    def _record(self, key: TargetKey, target: Target, now: Instant) -> Record:
        known = self._records.get(key)
        table = self._table(target)
        if known is None or not same_program(known.target, target):
            return Record(target=target, first_seen=now, vocabulary=table, version=target.version)
        if known.target == target and known.vocabulary is table:
            return known  # what was made of it still holds
        return msgspec.structs.replace(known, target=target, vocabulary=table)

    def _adopt_lives(self) -> None:
        """A restart that a platform tells after we have read the new process is no second restart of its counters."""
        for key, member in self._members.items():
            record, life = self._records.get(key), fleet.incarnation(member)
            if record is None or record.read_at is None or member.started_at is None:
                continue
            if record.chain.incarnation != life and record.read_at.wall > member.started_at:
                chain = msgspec.structs.replace(record.chain, incarnation=life)
                self._records[key] = msgspec.structs.replace(record, chain=chain)

    def _table(self, target: Target) -> Vocabulary | None:
        try:
            return catalog.lookup(target.component, target.software)
        except catalog.UnknownSoftware as error:
            self.unknown[target.software] = str(error)
            return None

    def _continue(self, key: TargetKey, last: LastRead) -> None:
        """Go on from another replica's last read of a target that was not read here, and from its window."""
        record, table = self._records[key], self._table(self._records[key].target)
        if record.reads or table is None or record.target.address.url != last.url:
            return
        if last.version is not None:
            self._told_versions[key.deployment, key.member_uid] = last.version
        openmetrics = last.content_type.startswith(OPENMETRICS)
        frame = self._extractor(record.target, table).read(last.data, previous=None, openmetrics=openmetrics)
        if isinstance(frame, Unreadable):
            return
        if last.seconds > 0 and len(last.moved) == frame.columns.width:
            before = np.maximum(frame.cumulative - np.array(last.moved), 0.0)
            earlier = Instant(last.at.mono - last.seconds, last.at.wall - last.seconds)
            chain = self._pushed(record, msgspec.structs.replace(frame, packed=pack(before)), earlier)
            record = msgspec.structs.replace(record, chain=chain)
        chain = self._pushed(record, frame, last.at)
        self._records[key] = fleet.read(
            record, frame, chain, last.at, duration=last.duration, body_bytes=len(last.data)
        )

    def tell_version(self, deployment: DeploymentKey, member_uid: str, version: str) -> None:
        """A member said which version it is; its next read is read by that version's names.

        What the program says of itself outranks what was declared for it.
        """
        self._told_versions[deployment, member_uid] = version

    def resets(self, key: TargetKey) -> int:
        """How many restarts of a target's counters were seen."""
        record = self._records.get(key)
        return 0 if record is None else record.chain.resets

    def on_body(self, target: Target, data: bytes, content_type: str, at: Instant, duration: float) -> None:
        """A target answered. An answer that comes after its target left, or moved, is dropped."""
        record = self._records.get(target.key)
        if record is None or record.target.address != target.address:
            return
        if record.vocabulary is None:
            self._tally.scraped(target.component, "Ok", duration, len(data), None)
            self._records[target.key] = msgspec.structs.replace(
                record, reads=record.reads + 1, read_at=at, duration=duration, body_bytes=len(data), consecutive=0
            )
            return
        extractor = self._extractor(record.target, record.vocabulary)
        started = self._clock.now().mono
        frame = extractor.read(data, previous=record.frame, openmetrics=content_type.startswith(OPENMETRICS))
        parse = self._clock.now().mono - started
        if isinstance(frame, Unreadable):
            self._tally.scraped(target.component, frame.kind, duration, len(data), parse)
            failure = ScrapeFailed(
                target=target.key,
                at=at,
                kind=frame.kind,
                detail=frame.detail,
                duration_seconds=duration,
                body_bytes=len(data),
            )
            self._records[target.key] = fleet.failed(record, failure)
            return
        self._tally.scraped(target.component, "Ok", duration, len(data), parse)
        for problem in frame.problems:
            self._tally.discarded(problem.kind, 1)
        chain = self._pushed(record, frame, at)
        self._records[target.key] = fleet.read(record, frame, chain, at, duration=duration, body_bytes=len(data))
        if self.kept is not None:
            version = self._told_versions.get((target.key.deployment, target.key.member_uid))
            self.kept[target.key] = LastRead(
                url=target.address.url, data=data, content_type=content_type, version=version, at=at, duration=duration
            )

    def _pushed(self, record: Record, frame: Frame, at: Instant) -> Chain:
        member = self._members.get(record.target.key)
        if member is None:
            return record.chain.push(frame, at, limits=self._chain)
        # Only for the first read: a start that the platform tells and one that the program exports are never equal.
        started = member.started_at if record.chain.tail is None else None
        return record.chain.push(frame, at, fleet.incarnation(member), self._chain, started=started)

    def on_failure(self, target: Target, failure: ScrapeFailed) -> None:
        """A target did not answer."""
        record = self._records.get(target.key)
        if record is not None and record.target.address == target.address:
            self._tally.scraped(target.component, failure.kind, failure.duration_seconds, failure.body_bytes, None)
            self._records[target.key] = fleet.failed(record, failure)

    def _extractor(self, target: Target, table: Vocabulary) -> Extractor:
        version = self._told_versions.get((target.key.deployment, target.key.member_uid)) or target.version
        key = (target.component, target.software, version, target.model)
        known = self._extractors.pop(key, None) or Extractor(
            table, version=version, model=target.model, limits=self._limits, cache=self._readers, budget=self.layouts
        )
        self._extractors[key] = known  # the one used last is the last to go
        if len(self._extractors) > _EXTRACTORS:
            del self._extractors[next(iter(self._extractors))]
            self._readers.clear()
        return known

    def keys(self) -> tuple[DeploymentKey, ...]:
        """The deployments that exist now, sorted."""
        return tuple(self._deployments)

    def deployment(self, key: DeploymentKey) -> Deployment | None:
        """One of them; another object only when the deployments were set anew and it changed."""
        return self._deployments.get(key)

    def deployments(self) -> tuple[Deployment, ...]:
        """The deployments themselves, sorted by key."""
        return tuple(self._deployments.values())

    def record(self, key: TargetKey) -> Record | None:
        """What is kept of one target."""
        return self._records.get(key)

    def by_key(self) -> dict[TargetKey, Record]:
        """What is kept of every target at this moment; later reads do not change it."""
        return dict(self._records)

    def records(self) -> tuple[Record, ...]:
        """What is kept of every target."""
        return tuple(self._records.values())

    def report(
        self, key: DeploymentKey, now: Instant, due: NextDue, signals: frozenset[str] | None = None
    ) -> DeploymentReport | None:
        """One deployment at an instant, as measured; ``None`` when it does not exist.

        With ``signals`` only the values of those are made, of targets and of roles: each as it is in the whole report.
        None at all of an empty set: then the statuses are all that is told.
        """
        deployment = self._deployments.get(key)
        if deployment is None:
            return None
        records = [self._records[target.key] for target in deployment.targets()]
        targets = (self._target(record, now, due, signals) for record in records)
        return fleet.report(deployment, targets, now, self._counts(deployment, records, signals))

    def moment(self, key: TargetKey, now: Instant) -> Moment | None:
        """What time has made of a target's values; ``None`` when it does not exist.

        Cheap: no value is made. What was made of a target's values holds, but for their ages, while `Moment.same` says
        that two moments show the same. (A target's status changes with each failure too: it is cheap, ask for it anew.)
        """
        record = self._records.get(key)
        return None if record is None else fleet.moment_of(record, now, self.policy)

    def prepare(self, key: DeploymentKey, now: Instant) -> Iterator[None]:
        """Work out, target by target, what the next report of a deployment is made from; it may leave meanwhile."""
        deployment = self._deployments.get(key)
        for target in deployment.targets() if deployment is not None else ():
            record = self._records.get(target.key)
            if record is not None:
                fleet.shown(record, now, self.policy)
                self._kept(record)
            yield

    def counts(self, key: DeploymentKey, signals: frozenset[str]) -> dict[str, Counted]:
        """By role the running totals of these histogram signals, over all that was ever read of it."""
        deployment = self._deployments.get(key)
        targets = deployment.targets() if deployment is not None else ()
        return {} if deployment is None else self._counts(deployment, [self._records[t.key] for t in targets], signals)

    def _counts(
        self, deployment: Deployment, records: Iterable[Record], signals: frozenset[str] | None
    ) -> dict[str, Counted]:
        by_role: dict[str, list[Record]] = {role.name: [] for role in deployment.roles}
        for record in records:
            if record.target.component is Component.ENGINE:
                by_role[record.target.role].append(record)
        departed = self._departed.get(deployment.key, {})
        return {role: fleet.counted(several, departed.get(role, {}), signals) for role, several in by_role.items()}

    def target_report(
        self, key: TargetKey, now: Instant, signals: frozenset[str] | None = None, due: NextDue | None = None
    ) -> TargetReport | None:
        """One target at an instant; ``None`` when it does not exist. With ``signals`` only the values of those."""
        record = self._records.get(key)
        return None if record is None else self._target(record, now, due or _not_due, signals)

    def _target(self, record: Record, now: Instant, due: NextDue, signals: frozenset[str] | None) -> TargetReport:
        found, several = fleet.shown(record, now, self.policy, signals)
        self._kept(record)
        return TargetReport(status=self._status(record, now, due), values=found, merged=several)

    def statuses(self, now: Instant, due: NextDue) -> tuple[TargetStatus, ...]:
        """How every target stands, sorted by key."""
        return tuple(self._status(self._records[key], now, due) for key in sorted(self._records))

    def _kept(self, record: Record) -> None:
        """What was made of a record is kept; what was asked for longest ago is forgotten, and made again when asked for."""
        if record.as_read:
            self._shown.pop(record.target.key, None)
            self._shown[record.target.key] = record
            if len(self._shown) > _SHOWN:
                self._shown.pop(next(iter(self._shown))).as_read.clear()

    def _status(self, record: Record, now: Instant, due: NextDue) -> TargetStatus:
        moment, shed = due(record.target.key)
        return fleet.status(record, now, moment, shed=shed)


def _not_due(_key: TargetKey) -> tuple[float | None, bool]:
    """Nobody asks when the target is read next."""
    return None, False
