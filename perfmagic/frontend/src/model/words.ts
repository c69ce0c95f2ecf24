// Labels in the reader's language: the code has them in English, a header brings their translations.
type Words = Readonly<Record<string, string>>;

let words: Words = {};
/** Whether times are known to two digits: those of predictions. */
export let rough = false;

/** From now on labels are in the language of a header, and its times have two digits where they are a model's. */
export function speak(header: { words?: Words | undefined; rough?: boolean }): void {
  rough = header.rough === true;
  words = header.words ?? {};
}

/** A template in the language, with its {fields} filled. */
export function say(template: string, values: Record<string, string | number> = {}): string {
  return (words[template] ?? template).replace(/{(\w+)}/g, (field, name: string) => String(values[name] ?? field));
}

/** Marks a template that is said later: templates are found by what is called with them. */
export const term = <T extends string>(template: T): T => template;
