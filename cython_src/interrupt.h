/* Ctrl-C during long work without Python's lock.
 *
 * The thread that made a call asks Python for signals now and then; if a handler raises, all threads
 * of the call give up at their next poll. They jump back to where their work began: kernels own no
 * memory but that of their workspaces and hold no locks, so nothing is left to be undone on the way,
 * and no function has to hand a status up. */
#ifndef ROOTMIND_INTERRUPT_H
#define ROOTMIND_INTERRUPT_H

#include <Python.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#define MARK_PLACE(place) setjmp(place)
#define JUMP_TO(place) longjmp(place, 1)
#else
#include <time.h>
/* Elsewhere than in glibc, the names without underscore make a system call for the signal mask. */
#define MARK_PLACE(place) _setjmp(place)
#define JUMP_TO(place) _longjmp(place, 1)
#endif

#if defined(_MSC_VER)
#define PER_THREAD __declspec(thread)
#define READ_FLAG(flag) (*(volatile int *)(flag))
#define SET_FLAG(flag) (*(volatile int *)(flag) = 1)
#else
#define PER_THREAD __thread
#define READ_FLAG(flag) __atomic_load_n(flag, __ATOMIC_RELAXED)
#define SET_FLAG(flag) __atomic_store_n(flag, 1, __ATOMIC_RELAXED)
#endif

/* Elementary steps between two looks at the flag and the clock: about a millisecond. */
#define STEPS_PER_POLL (1 << 20)
/* And between two looks for signals, which take Python's lock. */
#define MILLISECONDS_PER_CHECK 50

/* A call, for all of its threads. */
typedef struct {
    int stop;        /* a handler has raised, and the error is set in the calling thread */
    int64_t checked; /* when that thread last looked for signals; 0 for never */
} Watch;

/* What a thread is at work for. */
typedef struct {
    Watch *watch;      /* of the call; NULL outside of one */
    int takes_signals; /* whether this thread made the call, and Python's handlers run in it */
    jmp_buf *escape;   /* NULL where work must not be left by a jump */
    ptrdiff_t steps;   /* since the last poll */
} Task;

static PER_THREAD Task current_task;

static int64_t milliseconds(void)
{
#ifdef _WIN32
    return (int64_t)GetTickCount64();
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
#endif
}

/* Look for signals if it is time to, and run their handlers; returns whether to give up. */
static int check_signals(Watch *watch, int takes_signals)
{
    if (takes_signals && !READ_FLAG(&watch->stop)) {
        const int64_t now = milliseconds();
        if (watch->checked == 0) {
            watch->checked = now;
        } else if (now - watch->checked >= MILLISECONDS_PER_CHECK) {
            const PyGILState_STATE state = PyGILState_Ensure();
            if (PyErr_CheckSignals() != 0)
                SET_FLAG(&watch->stop);
            PyGILState_Release(state);
            /* Not counting the time that the handlers took. */
            watch->checked = milliseconds();
        }
    }
    return READ_FLAG(&watch->stop);
}

static void count_steps(ptrdiff_t steps)
{
    Task *task = &current_task;
    if (task->watch == NULL)
        return;
    task->steps += steps;
    if (task->steps < STEPS_PER_POLL)
        return;
    task->steps = 0;
    if (check_signals(task->watch, task->takes_signals) && task->escape != NULL)
        JUMP_TO(*task->escape);
}

/* Between parts of the work, for a thread that waits for others. */
static void check_signals_of_call(void)
{
    if (current_task.watch != NULL)
        check_signals(current_task.watch, current_task.takes_signals);
}

/* Do all of a call's work. Calls may come from a signal's handler, within another call. */
static int watch_call(int (*work)(void *), void *argument, int takes_signals, int *stopped)
{
    const Task outer = current_task;
    Watch watch = {0, 0};
    int status;
    current_task.watch = &watch;
    current_task.takes_signals = takes_signals;
    current_task.escape = NULL;
    current_task.steps = 0;
    status = work(argument);
    current_task = outer;
    *stopped = watch.stop;
    return status;
}

/* Do a part of it, in any thread; returns its result, or `if_stopped`. */
static int work_for_call(Watch *watch, int (*work)(void *), void *argument, int if_stopped)
{
    const Task outer = current_task;
    jmp_buf escape;
    int status;
    if (outer.watch != watch) {
        current_task.watch = watch;
        current_task.takes_signals = 0;
    }
    current_task.escape = &escape;
    current_task.steps = 0;
    if (MARK_PLACE(escape) == 0)
        status = work(argument);
    else
        status = if_stopped;
    current_task = outer;
    return status;
}

static Watch *watch_of_this_thread(void)
{
    return current_task.watch;
}

#endif
