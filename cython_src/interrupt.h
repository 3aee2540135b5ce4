/* Ctrl-C during long work without Python's lock, and the end of work that cannot go on.
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

/* What a thread is at work for. */
typedef struct {
    int *stop;         /* of the call, for all of its threads: a handler has raised; NULL outside */
    int takes_signals; /* whether Python's handlers run in this thread */
    jmp_buf *escape;
    ptrdiff_t steps;   /* since the last poll */
    int status;        /* why it gave up */
} Task;

static PER_THREAD Task current_task;
/* When this thread last looked for signals. */
static PER_THREAD int64_t last_check;

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

/* Look for signals, and run their handlers. */
static void check_signals(int *stop)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    if (PyErr_CheckSignals() != 0)
        SET_FLAG(stop);
    PyGILState_Release(state);
    /* Not counting the time that the handlers took. */
    last_check = milliseconds();
}

/* Returns whether a handler has raised. */
static int count_steps(ptrdiff_t steps)
{
    Task *task = &current_task;
    if (task->stop == NULL)
        return 0;
    task->steps += steps;
    if (task->steps < STEPS_PER_POLL)
        return 0;
    task->steps = 0;
    if (task->takes_signals && milliseconds() - last_check >= MILLISECONDS_PER_CHECK)
        check_signals(task->stop);
    return READ_FLAG(task->stop);
}

/* End the work at hand, which then returns this status. */
static void end_work(int status)
{
    current_task.status = status;
    JUMP_TO(*current_task.escape);
}

/* Do a part of a call's work; returns its result. Calls may come from a signal's handler, within
 * another call. */
static int do_work(int (*work)(void *), void *argument, int *stop, int takes_signals)
{
    const Task outer = current_task;
    jmp_buf escape;
    int status;
    current_task.stop = stop;
    current_task.takes_signals = takes_signals;
    current_task.escape = &escape;
    current_task.steps = 0;
    if (MARK_PLACE(escape) == 0)
        status = work(argument);
    else
        status = current_task.status;
    current_task = outer;
    return status;
}

#endif
