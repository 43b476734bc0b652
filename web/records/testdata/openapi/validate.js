// Reads an OpenAPI document from standard input, and prints its version and what is wrong with it.
import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";

const validator = new Validator();
const result = await validator.validate(JSON.parse(readFileSync(0, "utf8")));
if (!result.valid) {
  console.error(JSON.stringify(result.errors, null, 1));
  process.exit(1);
}
validator.resolveRefs(); // fails on a reference to nothing
console.log(validator.version);
