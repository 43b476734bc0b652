"use strict";
// post sends a form's values to its page and gives the answer to done.
function post(form, done) {
  fetch(location.pathname, {method: "POST", body: new URLSearchParams(new FormData(form)), headers: {Accept: "application/json"}})
    .then((answer) => answer.json())
    .then(done);
}
