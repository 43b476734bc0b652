"use strict";
addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("post");
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    post(form, (res) => { document.getElementById("test3").textContent = res.test3; });
  });
});
