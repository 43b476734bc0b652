import "./administrators.mjs";
