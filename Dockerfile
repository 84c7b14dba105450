# The image of the observer: built from the locked, hashed requirements, run by a user without rights.
#
# The machine that tests this repository has no container engine. tests/chart/test_dockerfile.py reads this file, copies
# what COPY names, and runs each RUN line in an empty environment and a folder of its own in place of PREFIX; what only an
# engine can show (the base image, layers, the user at run time) is not tested.

FROM python:3.11-slim AS build
ARG PREFIX=/opt/observer
WORKDIR /src
COPY requirements/image.lock requirements/
RUN python3 -m venv ${PREFIX}
RUN ${PREFIX}/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-compile --require-hashes --requirement requirements/image.lock
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY router_contract router_contract
COPY observer observer
COPY exporters exporters
COPY dashboards dashboards
RUN ${PREFIX}/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-compile --no-deps --no-build-isolation .
RUN ${PREFIX}/bin/python -m compileall -q ${PREFIX}/lib
RUN ${PREFIX}/bin/python -m pip uninstall --quiet --yes hatchling editables pip setuptools

FROM python:3.11-slim
ARG PREFIX=/opt/observer
COPY --from=build ${PREFIX} ${PREFIX}
ENV PATH=${PREFIX}/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 9480 10250
ENTRYPOINT ["observer"]
CMD ["--help"]
