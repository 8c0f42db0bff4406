interface Watched {
  readonly subject: WeakRef<object>
  readonly call: (subject: never) => void
}

const watched = new Set<Watched>()
const forgotten = new FinalizationRegistry<Watched>((entry) => watched.delete(entry))
let isListening = false

/**
 * Calls a function when the process exits, with one listener for all. Does not keep `subject` in memory, so `call` must not
 * refer to it.
 * @returns a function that cancels the call.
 */
export function atExit<Subject extends object>(
  subject: Subject,
  call: (subject: Subject) => void,
): () => void {
  const entry: Watched = { subject: new WeakRef(subject), call }
  watched.add(entry)
  forgotten.register(subject, entry)
  if (!isListening) {
    isListening = true
    const { process } = globalThis as { process?: Partial<NodeJS.Process> }
    process?.once?.('exit', callAll)
  }
  return () => watched.delete(entry)
}

function callAll(): void {
  for (const { subject, call } of watched) {
    const alive = subject.deref()
    if (alive !== undefined) call(alive as never)
  }
}
