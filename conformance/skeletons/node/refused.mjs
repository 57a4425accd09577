/** An error reply: one of the nine kinds, and the implementation's own text, word for word. */
export class Refused extends Error {
  constructor(kind, text) {
    super(text);
    this.kind = kind;
  }
}
