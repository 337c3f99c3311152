"""A real S3 server on this host, moto's, in a thread of the test's process."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUCKET = "sarqc-tests"


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("s3fs", "moto", "flask"))


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a bucket. The environment of this process names the server, so that everything it starts finds
    it."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",  # credentials are not asked for on the network
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        S3FileSystem().mkdir(BUCKET)
        yield f"s3://{BUCKET}"
    server.stop()
