import "./schema.mjs";
