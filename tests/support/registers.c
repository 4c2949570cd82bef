/* Do the floating-point registers survive system calls, page faults, signals, other threads and other processes?
 *
 * Every thread of every process fills xmm0 to xmm15 with values of its own, lets something happen, and looks at them
 * again. A child that it forks has them, too, and one that it spawns, which shares its memory until it executes a program,
 * disturbs nobody. Prints how often it looked, and "lost" and fails where a value was another one. For the lab, whose
 * kernel moves these registers only when somebody else needs their place (emulator/lab/patches). */

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 3, ROUNDS = 300, REGISTERS = 16, PAGE = 4096, SCHED_YIELD = 24, GETPID = 39, FORK = 57,
       EVERY = 25 };

#define EACH(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) \
	what(8) what(9) what(10) what(11) what(12) what(13) what(14) what(15)
#define LOAD(n) "movdqu " #n "*16(%[in]), %%xmm" #n "\n"
#define STORE(n) "movdqu %%xmm" #n ", " #n "*16(%[out])\n"
#define NAME(n) , "xmm" #n

typedef uint64_t registers_t[2 * REGISTERS];

static long through(const registers_t in, registers_t out, long call, volatile char *page)
{
	long answer = call;
	asm volatile(EACH(LOAD) "syscall\n" "movb $1, (%[page])\n" EACH(STORE)
		     : "+a"(answer)
		     : [in] "r"(in), [out] "r"(out), [page] "r"(page)
		     : "rcx", "r11", "memory" EACH(NAME));
	return answer;
}

static void handler(int number)
{
	registers_t in, out;
	static char page[PAGE];
	memset(in, number, sizeof in);
	through(in, out, GETPID, page);
}

/* One thing that happens; whether a value was another one afterwards, here or in a child. */
static int look(unsigned *seed, long call)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	registers_t in, out;
	int status = 0;
	for (int i = 0; i < 2 * REGISTERS; i++)
		in[i] = (uint64_t)rand_r(seed) << 32 | (unsigned)rand_r(seed);
	long answer = through(in, out, call, page);
	int lost = memcmp(in, out, sizeof in) != 0;
	if (call == FORK && answer == 0)
		_exit(lost);
	if (call == FORK)
		waitpid((pid_t)answer, &status, 0);
	munmap(page, PAGE);
	return lost || status;
}

static int spawned(void)
{
	char *argv[] = {"registers", "child", NULL};
	pid_t child;
	int status;
	if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ))
		return 1;
	waitpid(child, &status, 0);
	return status != 0;
}

static void *work(void *argument)
{
	long lost = 0;
	unsigned seed = (unsigned)(uintptr_t)argument ^ (unsigned)getpid() << 8;
	for (int round = 0; round < ROUNDS; round++) {
		lost += look(&seed, round % EVERY == 0 ? FORK : round % 2 ? SCHED_YIELD : GETPID);
		if (round % EVERY == 1)
			lost += spawned();
		if (round % 16 == 0)
			usleep(1);
	}
	return (void *)lost;
}

int main(int count, char **argv)
{
	(void)argv;
	if (count > 1) {
		unsigned seed = (unsigned)getpid();
		int lost = 0;
		for (int round = 0; round < EVERY; round++)
			lost += look(&seed, SCHED_YIELD);
		return lost != 0;
	}
	struct itimerval often = {{0, 100}, {0, 100}};
	long lost = 0;
	for (int process = 1; process < PROCESSES; process++)
		if (fork() == 0)
			break;
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) {
		void *its;
		pthread_join(threads[i], &its);
		lost += (long)its;
	}
	for (int status; wait(&status) > 0;)
		lost += status != 0;
	if (lost)
		printf("lost %ld\n", lost);
	else
		printf("%d\n", THREADS * ROUNDS);
	return lost != 0;
}
