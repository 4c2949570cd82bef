"""The lab's kernel: User-mode Linux from Debian's own source package, with our kernel.config and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from emulator.errors import LabError
from emulator.lab.build_cache import Progress, building, command, entry, need

SOURCE = Path("/usr/src/linux-source-6.12.tar.xz")
CONFIG = Path(__file__).with_name("kernel.config")
RECIPE = "5"
"""Raise it when the steps below change: an older build is then not taken for this one."""

OBJECTS = 1330
"""About how many files are compiled, for the progress bar."""

EDITS = (
    # The guest's random numbers come from the seed alone: no RDRAND (without this header x86's own would be taken), no
    # bytes of the host's (but as many that are known, until init.py brings the seed's: else the first program that
    # asks for one lets the kernel gather its own for two seconds), and none of the command line, which holds the name
    # of a temporary folder.
    ("arch/um/include/asm/archrandom.h", None, "#include <asm-generic/archrandom.h>\n"),
    (
        "arch/um/kernel/um_arch.c",
        "if (os_getrandom(rng_seed, sizeof(rng_seed), 0) == sizeof(rng_seed)) {",
        "memset(rng_seed, 0, sizeof(rng_seed));\n\tif (1) {",
    ),
    ("init/main.c", "random_init_early(command_line);", 'random_init_early("");'),
    # Room for the floating-point state of CPUs with AMX, an xsave area of 11 KiB: 2696 bytes hold AVX-512 alone and the
    # guest's registers would be cut off.
    ("arch/x86/um/user-offsets.c", "DEFINE_LONGS(HOST_FP_SIZE, 2696);", "DEFINE_LONGS(HOST_FP_SIZE, 12288);"),
    # The floating-point registers are fetched from a program at each of its system calls and page faults, and put back
    # before it goes on: a twelfth of all time, and mostly what is there already. What is known to be there is not put
    # again; a program that ran something of the kernel's in between (wait_stub_done) is known no more.
    (
        "arch/x86/um/os-Linux/registers.c",
        "static int have_xstate_support;\n",
        "static int have_xstate_support;\n"
        "static int known_pid;\nstatic size_t known_bytes;\nstatic unsigned long known[FP_SIZE];\n\n"
        "void forget_fp_registers(void)\n{\n\tknown_pid = 0;\n}\n",
    ),
    (
        "arch/x86/um/os-Linux/registers.c",
        "\t\tif (ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n\t\t\treturn -errno;\n",
        "\t\tif (ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n\t\t\treturn -errno;\n"
        "\t\tmemcpy(known, fp_regs, iov.iov_len);\n\t\tknown_pid = pid;\n\t\tknown_bytes = iov.iov_len;\n",
    ),
    (
        "arch/x86/um/os-Linux/registers.c",
        "\tif (have_xstate_support) {\n\t\tiov.iov_base = fp_regs;\n"
        "\t\tiov.iov_len = FP_SIZE * sizeof(unsigned long);\n\t\tif (ptrace(PTRACE_SETREGSET",
        "\tif (have_xstate_support) {\n\t\tif (pid == known_pid && !memcmp(known, fp_regs, known_bytes))\n"
        "\t\t\treturn 0;\n\t\tiov.iov_base = fp_regs;\n"
        "\t\tiov.iov_len = FP_SIZE * sizeof(unsigned long);\n\t\tif (ptrace(PTRACE_SETREGSET",
    ),
    ("arch/x86/um/os-Linux/registers.c", "#include <stdlib.h>\n", "#include <stdlib.h>\n#include <string.h>\n"),
    (
        "arch/um/include/shared/registers.h",
        "extern int get_fp_registers(int pid, unsigned long *regs);\n",
        "extern int get_fp_registers(int pid, unsigned long *regs);\nextern void forget_fp_registers(void);\n",
    ),
    (
        "arch/um/os-Linux/skas/process.c",
        "void wait_stub_done(int pid)\n{\n\tint n, status, err;\n",
        "void wait_stub_done(int pid)\n{\n\tint n, status, err;\n\n\tforget_fp_registers();\n",
    ),
    # A process that is buried waits here, spinning, for another that is just forgetting the same names in /proc and has
    # been interrupted at it. Where computing takes no time its turn would never come: let time pass.
    ("fs/dcache.c", "#include <linux/bit_spinlock.h>\n", "#include <linux/bit_spinlock.h>\n#include <linux/delay.h>\n"),
    (
        "fs/dcache.c",
        "\t\tif (!list_empty(&data.dispose))\n\t\t\tshrink_dentry_list(&data.dispose);\n\t}\n}\n"
        "EXPORT_SYMBOL(shrink_dcache_parent);",
        "\t\tif (!list_empty(&data.dispose))\n\t\t\tshrink_dentry_list(&data.dispose);\n"
        "\t\telse if (!data.victim)\n\t\t\tudelay(10);\n\t}\n}\n"
        "EXPORT_SYMBOL(shrink_dcache_parent);",
    ),
    # From the first of its timers after a test to the other end's answer, a round trip, iperf3's client asks select()
    # without end, never waiting in it. A turn is 768 ns of virtual time and 0.1 ms of ours, so a second so spent took
    # two minutes: who asks so in vain sleeps 0.1 ms first.
    (
        "fs/select.c",
        "#include <linux/syscalls.h>\n",
        "#include <linux/syscalls.h>\n#include <linux/delay.h>\n#include <linux/time-internal.h>\n",
    ),
    (
        "fs/select.c",
        "\t\t\ttimed_out = 1;\n\t}\n\n\tpoll_freewait(&table);\n\n\treturn retval;\n",
        "\t\t\ttimed_out = 1;\n\t}\n\n\tpoll_freewait(&table);\n\n"
        "\tif (!retval && end_time && !to && time_travel_mode == TT_MODE_INFCPU)\n"
        "\t\tusleep_range_state(100, 100, TASK_INTERRUPTIBLE);\n\n\treturn retval;\n",
    ),
    # A page fault costs 80 us, as much as a hundred pages of zeros, and starting a program was little else. What stands
    # around a private page that is written gets pages of its own at once; around what is read the kernel maps already.
    (
        "arch/um/kernel/trap.c",
        "/*\n * Note this is constrained to return 0, -EFAULT",
        "static void write_around(struct vm_area_struct *vma, unsigned long address)\n{\n"
        "\tunsigned long window = 16 * PAGE_SIZE, begin = address & ~(window - 1);\n"
        "\tunsigned long addr = max(vma->vm_start, begin), end = min(vma->vm_end, begin + window);\n\n"
        "\tif (vma->vm_flags & (VM_SHARED | VM_IO | VM_PFNMAP | VM_MIXEDMAP))\n\t\treturn;\n"
        "\tfor (; addr < end; addr += PAGE_SIZE) {\n"
        "\t\tpte_t pte = *pte_offset_kernel(pmd_off(vma->vm_mm, addr), addr);\n\n"
        "\t\tif (!pte_none(pte) && (!pte_present(pte) || pte_write(pte)))\n\t\t\tcontinue;\n"
        "\t\tif (handle_mm_fault(vma, addr, FAULT_FLAG_USER | FAULT_FLAG_WRITE, NULL) & VM_FAULT_ERROR)\n"
        "\t\t\treturn;\n\t}\n}\n\n"
        "/*\n * Note this is constrained to return 0, -EFAULT",
    ),
    (
        "arch/um/kernel/trap.c",
        "\tWARN_ON(!pte_young(*pte) || (is_write && !pte_dirty(*pte)));\n#endif\n",
        "\tWARN_ON(!pte_young(*pte) || (is_write && !pte_dirty(*pte)));\n#endif\n"
        "\tif (is_user && is_write)\n\t\twrite_around(vma, address);\n",
    ),
)
"""(file, what stands there, what shall stand there); None stands for the whole file."""

BUILD = {
    "KBUILD_BUILD_TIMESTAMP": "2001-09-09 01:46:40 UTC", "KBUILD_BUILD_VERSION": "1", "KBUILD_BUILD_USER": "lab",
    "KBUILD_BUILD_HOST": "lab",
}  # fmt: skip
"""The kernel mixes its own version string into its random numbers: the same on every machine."""

TOOLS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "dpkg-deb": "dpkg",
}  # fmt: skip


def place() -> Path:
    """Where the kernel is, or will be: the executable `linux` in this folder."""
    return entry("kernel", [CONFIG.read_bytes(), SOURCE.name, repr(EDITS), repr(BUILD), RECIPE])


def build(progress: Progress) -> Path:
    """Build the kernel unless it is there. Returns the executable. Raises LabError."""
    goal = place()
    with building(goal) as partial:
        if partial:
            need(TOOLS)
            tree = _unpack(partial, progress)
            _configure(tree)
            _compile(tree, progress)
            (tree / "linux").rename(partial / "linux")
            command(["strip", partial / "linux"])
            command(["rm", "-rf", tree])
    return goal / "linux"


def _unpack(partial: Path, progress: Progress) -> Path:
    progress("unpack the kernel's source", 0, 1)
    archive = SOURCE
    if not archive.exists():
        # No root needed to take a package apart.
        command(["apt-get", "download", "linux-source-6.12"], cwd=partial)
        package = next(partial.glob("linux-source-6.12_*.deb"))
        command(["dpkg-deb", "-x", package, partial / "package"])
        archive = partial / "package" / SOURCE.relative_to("/")
    tree = partial / "tree"
    tree.mkdir()
    left_out = [f"--exclude=*/{path}" for path in ("Documentation/*/*", "tools/testing")]
    command(["tar", "-xJf", archive, "-C", tree, "--strip-components=1", *left_out])
    for name, old, new in EDITS:
        edit(tree / name, old, new)
    return tree


def edit(file: Path, old: str | None, new: str) -> None:
    """Replace `old`, which must stand in the file exactly once, by `new`. Raises LabError."""
    text = file.read_text()
    if old is not None and text.count(old) != 1:
        raise LabError(f"{file.name} of this kernel's source is not the one that the lab knows: {old!r} not found once")
    file.write_text(new if old is None else text.replace(old, new))


def _configure(tree: Path) -> None:
    make = ["make", "-s", "ARCH=um"]
    command([*make, "tinyconfig"], cwd=tree)
    command(["./scripts/kconfig/merge_config.sh", "-m", ".config", CONFIG], cwd=tree, env={"ARCH": "um"})
    command([*make, "olddefconfig"], cwd=tree)
    check_config(CONFIG.read_text(), (tree / ".config").read_text())


def check_config(asked: str, got: str) -> None:
    """Raises LabError naming every line of kernel.config that this kernel did not keep."""
    kept = set(got.splitlines())
    if lost := [line for line in asked.splitlines() if line.startswith(("CONFIG_", "# CONFIG_")) and line not in kept]:
        raise LabError(f"the kernel's configuration lost {', '.join(lost)}")


def _compile(tree: Path, progress: Progress) -> None:
    argv = ["make", "ARCH=um", f"-j{os.cpu_count()}", "linux"]
    lines: list[str] = []
    with subprocess.Popen(
        argv, cwd=tree, env={**os.environ, **BUILD}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as make:  # fmt: skip
        assert make.stdout
        for line in make.stdout:
            lines.append(line.rstrip())
            progress("compile the kernel", min(len(lines), OBJECTS), OBJECTS)
    if make.returncode != 0:
        raise LabError("the kernel does not compile:\n" + "\n".join(lines[-12:]))
