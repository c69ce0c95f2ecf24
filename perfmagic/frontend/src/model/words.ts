// Labels in the reader's language: the code has them in English, a header brings their translations.
type Words = Readonly<Record<string, string>>;

let words: Words = {};

/** From now on labels are in the language of a header. */
export function speak(header: { words?: Words | undefined }): void {
  words = header.words ?? {};
}

/** A template in the language, with its {fields} filled. */
export function say(template: string, values: Record<string, string | number> = {}): string {
  return (words[template] ?? template).replace(/{(\w+)}/g, (field, name: string) => String(values[name] ?? field));
}

/** Marks a template that is said later: templates are found by what is called with them. */
export const term = <T extends string>(template: T): T => template;
