"""Programs behind the real fence: what passes, what doesn't, and what they can't reach."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sarqc.errors import Refused
from sarqc.evaluation import sandbox
from sarqc.evaluation.sandbox import Limits, Program, ProgramResult, run_program, run_programs

pytestmark = pytest.mark.usefixtures("isolating_host")

SMALL = Limits(cpu_seconds=30, wall_seconds=60.0, memory_bytes=256 << 20, disk_bytes=1 << 20, processes=16)
SHORT = replace(SMALL, cpu_seconds=1)
SHORTEST = replace(SMALL, wall_seconds=1.0)


def said(program: str) -> str:
    """Return the text that a program prints into its last error."""
    outcome = run_program(f"{program}\nraise ValueError(found)", SMALL)
    assert outcome.result == "failed"
    return outcome.error.removeprefix("ValueError: ")


def test_reaching_the_last_line_passes():
    assert run_program("def f(x):\n    return x + 1\n\nassert f(1) == 2", SMALL) == ProgramResult("passed")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("assert 1 == 2, 'one is not two'", "AssertionError: one is not two"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(0)", "it ended itself with status 0"),
        ("import os; os._exit(0)", "it ended itself with status 0"),
        ("import os; os.abort()", "ended by signal 6"),
        ("if __name__ != '__main__': raise ValueError('a module')", "ValueError: a module"),
        ("'\ud800'", None),
        ("x = '\x00'", None),
    ],
)
def test_anything_else_fails_and_says_why(program, error):
    outcome = run_program(program, SMALL)
    assert outcome.result == "failed"
    assert outcome.error == error if error else outcome.error


@pytest.mark.thorough
@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "import time\ntime.sleep(60)",
        "import os, signal, time\nos.setsid()\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
    ],
)
def test_endless_programs_are_ended(program):
    assert run_program(program, SHORTEST if "sleep" in program else SHORT).result == "timed out"


def test_memory_is_bounded():
    assert run_program("x = 'a' * (1 << 30)", SMALL) == ProgramResult("out of memory", "MemoryError")
    assert run_program("x = []\nwhile True: x.append('a' * (1 << 20) + str(len(x)))", SMALL).result == "out of memory"


@pytest.mark.thorough
def test_processes_are_bounded_and_end_with_the_program():
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    program = f"""
import os, time
children = 0
try:
    while children < 100:
        if os.fork() == 0:
            os.setsid()
            os.execv({sys.executable!r}, ["python", "-I", "-c", "import time; time.sleep(60)", {mark!r}])
        children += 1
except BlockingIOError:
    found = children
time.sleep(0.3)
"""
    assert 0 < int(said(program)) < SMALL.processes
    wait_until(lambda: not any(mark.encode() in line for line in command_lines()))


def test_a_fork_bomb_is_ended():
    program = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    before = isolated()
    assert run_program(program, SHORTEST).result == "timed out"
    wait_until(lambda: isolated() < before + SMALL.processes // 2)  # other tests may run a few


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for the kernel, which ends what a program has started just after it."""
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def isolated() -> int:
    """Return the number of processes in isolation on this host: their command is the text of ``inside.py``."""
    text = Path(sandbox.__file__).with_name("inside.py").read_bytes()[:80]
    return sum(text in line for line in command_lines())


def command_lines() -> list[bytes]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes())
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_not_even_this_host_is_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 2):  # it does listen
            server.accept()[0].close()
        program = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)"
        assert run_program(program, SMALL) == ProgramResult(
            "failed", "ConnectionRefusedError: [Errno 111] Connection refused"
        )
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()


def test_unix_sockets_of_the_host_are_not_seen(tmp_path):
    for address in (str(tmp_path / "socket"), f"\0sarqc-{os.getpid()}"):  # a file, and a name of the network namespace
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(address)
            server.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(address)
            program = f"import socket\nsocket.socket(socket.AF_UNIX).connect({address!r})"
            assert run_program(program, SMALL).result == "failed"


def test_files_of_the_host_are_neither_seen_nor_written(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("not for you", encoding="utf-8")
    secret.chmod(0o644)
    assert run_program(f"open({str(secret)!r})", SMALL).error.startswith("FileNotFoundError")
    for path in ("/usr/written", "/written", f"{sys.prefix}/written", str(tmp_path / "written"), "/dev/written"):
        assert run_program(f"open({path!r}, 'w')", SMALL).error.startswith(("OSError: [Errno 30]", "FileNotFoundError"))
        assert not Path(path).exists()
    assert said(
        "import os\nfound = [os.path.exists(p) for p in ('/proc/self', '/home', '/var', '/run', '/etc/passwd')]"
    ) in (str([False] * 5))


@pytest.mark.thorough
def test_the_working_folder_is_writable_small_and_new():
    program = "import os, tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x')\nopen('left', 'w').write('x')\n"
    for _ in range(2):
        assert said(f"{program}found = os.getcwd(), sorted(os.listdir())") == "('/program', ['left'])"
    assert run_program("open('big', 'w').write('x' * (2 << 20))", SMALL).error.startswith("OSError")
    many = "for i in range(20): open(f'f{i}', 'w').write('x' * 100_000)"  # each is allowed, together they are too much
    assert run_program(many, SMALL).error == "OSError: [Errno 28] No space left on device"
    empty = "import os\nfor i in range(100_000): os.mknod(f'f{i}')"  # no byte in them, a kilobyte of the kernel's each
    assert run_program(empty, Limits()) == ProgramResult("failed", "more than 1000 files")


@pytest.mark.thorough
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_it_prints_is_not_kept(stream):
    printing = f"import sys\nsys.{stream}.write('x' * 100_000_000)\n"
    assert run_program(printing, Limits()) == ProgramResult("passed")
    outcome = run_program(f"{printing}1 / 0", Limits())
    assert outcome.result == "failed"
    assert outcome.error.endswith("ZeroDivisionError: division by zero") or len(outcome.error) == 200


def test_it_inherits_nothing(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    names = said("import os\nfound = sorted(os.environ)")
    assert "HF_TOKEN" not in names
    assert set(eval(names)) <= {"HOME", "TMPDIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LC_CTYPE", "PWD"}
    opened = "import os\nfound = []\nfor n in range(64):\n    try: os.fstat(n)\n    except OSError: continue\n"
    assert said(f"{opened}    found.append(n)") == "[0, 1, 2, 3]"  # the last leads to the tests
    assert said("import sys\nfound = len(sys.stdin.read())") == "0"


def test_it_has_no_privileges():
    assert said("import os\nfound = os.getuid() != 0 and os.getuid() == os.geteuid()") == "True"
    program = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "found = libc.mount(b'none', b'/program', b'tmpfs', 0, None), libc.umount(b'/usr'), libc.sethostname(b'x', 1)"
    )
    assert said(program) == "(-1, -1, -1)"
    assert said("import os\nfound = os.getpid()") == "2"  # after bubblewrap
    killing = "import os\ntry: os.kill(1, 9)\nexcept PermissionError: pass"  # process 1 judges: it must live to say so
    assert run_program(killing, SMALL).result == "passed"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unshare", "0x10000000"),  # CLONE_NEWUSER: in it a process has every capability
        ("unshare", "0"),
        ("syscall", "56, 0x10000000 | 17, 0, 0, 0, 0"),  # clone, with a new user namespace
        ("syscall", "435, 0, 0"),  # clone3
        ("syscall", "425, 1, ctypes.byref(ctypes.create_string_buffer(120))"),  # io_uring_setup
        ("syscall", "321, 0, ctypes.byref(ctypes.create_string_buffer(120)), 120"),  # bpf
        ("syscall", "248, b'user', b'name', b'key', 3, -2"),  # add_key
        ("syscall", "250, 0, -2, 1"),  # keyctl
        ("syscall", "298, ctypes.byref(ctypes.create_string_buffer(120)), 0, -1, -1, 0"),  # perf_event_open
        ("syscall", "323, 1"),  # userfaultfd
        ("syscall", "319, b'', 0"),  # memfd_create
        ("shmget", "0, 4096, 0o1600"),
        ("syscall", "310, 1, 0, 0, 0, 0, 0"),  # process_vm_readv
        ("syscall", "304, -100, 0, 0"),  # open_by_handle_at
        ("ptrace", "0, 0, 0, 0"),
        ("mount", "b'none', b'/program', b'tmpfs', 0, None"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are those of x86_64")
def test_calls_that_no_test_needs_are_denied(name, arguments):
    program = f"import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\nfound = libc.{name}({arguments})\n"
    absent = "ENOSYS" if arguments.startswith("435") else "EPERM"
    assert said(f"{program}found = found, errno.errorcode[ctypes.get_errno()]") == f"(-1, '{absent}')"


def test_threads_and_processes_work_nevertheless():
    program = """
import subprocess, sys, threading
threading.Thread(target=lambda: None).start()
assert subprocess.run([sys.executable, "-I", "-c", "print(1)"], stdout=subprocess.PIPE).stdout == b"1\\n"
"""
    assert run_program(program, Limits()) == ProgramResult("passed")


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_memory_is_bounded_for_all_processes_together(kind):
    """Each of them takes a part that it is allowed."""
    flags = "mmap.MAP_ANONYMOUS | " + ("mmap.MAP_PRIVATE" if kind == "private" else "mmap.MAP_SHARED")
    program = f"""
import mmap, os, time
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        size = 64 << 20
        memory = mmap.mmap(-1, size, {flags})
        for place in range(0, size, 4096):
            memory[place] = 1
        time.sleep(60)
time.sleep(60)
"""
    assert run_program(program, SMALL) == ProgramResult("out of memory", "more than 256 MiB in all its processes")


TESTS = (
    "def check(candidate):\n    assert candidate(2) == 4, 'two'\n    assert candidate([(1, {'a': {2}})]) == 7, 'list'\n"
)
RIGHT = "def double(x):\n    return 4 if x == 2 else 7 if x == [(1, {'a': {2}})] else None\n"
WRONG = "def double(x):\n    return 5\n"


@pytest.mark.thorough
def test_tests_call_the_program():
    assert run_program(Program(RIGHT, TESTS, "double"), SMALL) == ProgramResult("passed")
    assert run_program(Program(WRONG, TESTS, "double"), SMALL) == ProgramResult("failed", "AssertionError: two")
    assert run_program(Program("", TESTS, "double"), SMALL).error == "NameError: name 'double' is not defined"
    raising = "def double(x):\n    return x / 0\n"
    assert run_program(Program(raising, TESTS, "double"), SMALL).error == "ZeroDivisionError: division by zero"
    hungry = "def double(x):\n    return 'a' * (1 << 40)\n"
    assert run_program(Program(hungry, TESTS, "double"), SMALL) == ProgramResult("out of memory", "MemoryError")
    endless = "def double(x):\n    while True: pass\n"
    assert run_program(Program(endless, TESTS, "double"), SHORT).result == "timed out"
    nested = "def double(x):\n    found = []\n    for _ in range(100_000): found = [found]\n    return found\n"
    assert run_program(Program(nested, TESTS, "double"), SMALL).result == "failed"


EQUAL = "class Equal:\n    def __eq__(self, other): return True\n    __hash__ = None\n"
CHEATS = {
    "exit": "import os\nos._exit(0)",
    "the former status of success": "import os\nos._exit(111)",
    "exit when called": "import os\ndef double(x): os._exit(0)",
    "the former status when called": "import os\ndef double(x): os._exit(111)",
    "at exit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit(0)",
    "a trace function": "import os, sys\nsys.settrace(lambda *_: os._exit(0))\n" + WRONG,
    "equal to everything": EQUAL + "def double(x): return Equal()",
    "a list equal to everything": "class Equal(list):\n    def __eq__(self, other): return True\n"
                                  "def double(x): return Equal()",
    "patched builtins": "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\n"
                        "builtins.compile = builtins.exec = lambda *_: None\n" + WRONG,
    "frames": "import sys\nframe = sys._getframe()\nwhile frame:\n    for name in ('check', 'tests', 'asked'):\n"
              "        frame.f_globals[name] = lambda *_: None\n    frame = frame.f_back\n" + WRONG,
    "what was printed": "import os\nfor n in (1, 2): os.write(n, b'{\"passed\": true, \"status\": 0}\\n')\nos._exit(0)",
    "answers in the channel": "import os\nos.write(3, b'\"ready\"\\n' + b'{\"value\": 4}\\n' * 99 + "
                              "b'{\"passed\": true}\\n')\n" + WRONG,
    "the channel closed": "import os\nos.close(3)\nimport time\ntime.sleep(60)",
    "killing the tests": "import os\nfor n in range(2, 9):\n    try: n != os.getpid() and os.kill(n, 9)\n"
                         "    except OSError: pass\n" + WRONG,
    "another check": WRONG + "def check(candidate): pass",
    "a survivor": "import os, time\nif os.fork():\n    os._exit(0)\ntime.sleep(60)",
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHEATS)
def test_a_program_can_not_say_that_it_passed(name):
    outcome = run_program(Program(CHEATS[name], TESTS, "double"), replace(SMALL, wall_seconds=60.0))
    assert outcome.result in ("failed", "out of memory"), outcome  # the latter: the tests were killed


@pytest.mark.thorough
def test_many_at_once_keep_their_order():
    outcomes = run_programs([f"assert {number} % 3" for number in range(9)], SMALL)
    assert [outcome.result == "passed" for outcome in outcomes] == [number % 3 > 0 for number in range(9)]


def test_a_host_without_bubblewrap_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match=r"bubblewrap \(bwrap\) is not installed.*apt-get install bubblewrap"):
        run_program("")


@pytest.mark.skipif(
    shutil.which("unshare") is None, reason="the unshare program, which takes the right away, is absent"
)
def test_a_host_that_does_not_isolate_is_refused():
    """A user without a name in its namespace can't make another: as in a container that forbids it."""
    code = (
        "from sarqc.evaluation.sandbox import require_isolation\nfrom sarqc.errors import Refused\n"
        "try: require_isolation()\nexcept Refused as error: print(error.what, '|', error.remedy)"
    )
    command = ["unshare", "--user", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert "can't isolate" in done.stdout, done.stderr
    assert "bwrap: " in done.stdout
    assert "leave the task out" in done.stdout
