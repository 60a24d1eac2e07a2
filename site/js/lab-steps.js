// Play, Back and Next: buttons that move a slider, which alone would do as well.

/** @typedef {import("./lab-control.js").LabControl} LabControl */

/** Of each step while playing: one can read what it says. */
const STEP_MS = 1600;

export class LabSteps {
  /** What the buttons say and where they are. */
  #place;
  #slider;
  #play;
  #words;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #playing;
  /** Where the slider is, unless another has moved it. */
  #step = "";

  /**
   * @param {HTMLElement} section of a lab
   * @param {Map<string, LabControl>} controls of that lab
   * @returns {LabSteps | undefined} none where it has no such buttons
   */
  static of(section, controls) {
    const place = /** @type {HTMLElement | null} */ (section.querySelector("[data-player]"));
    const slider = controls.get(place?.dataset.player ?? "");
    return place && slider ? new LabSteps(section, place, slider) : undefined;
  }

  /**
   * @param {HTMLElement} section
   * @param {HTMLElement} place
   * @param {LabControl} slider
   */
  constructor(section, place, slider) {
    this.#place = place;
    this.#slider = slider;
    this.#play = this.#button("play");
    this.#words = { play: this.#play.textContent ?? "", stop: this.#play.dataset.stop ?? "" };
    this.#play.addEventListener("click", () => (this.isPlaying ? this.stop() : this.#start()));
    this.#button("back").addEventListener("click", () => this.#move(-1));
    this.#button("next").addEventListener("click", () => this.#move(1));
    for (const input of ["click", "keydown"]) {
      document.addEventListener(input, (event) => this.#stopFor(event));
    }
    document.addEventListener("visibilitychange", () => this.stop());
    new IntersectionObserver(([{ isIntersecting }]) => isIntersecting || this.stop()).observe(
      section,
    );
    this.moved();
  }

  get isPlaying() {
    return this.#playing !== undefined;
  }

  /** Called when playing has ended. */
  onStop = () => {};

  /** A control of the lab has moved: another one, or the slider by hand, ends the playing. */
  moved() {
    if (this.#slider.text !== this.#step) {
      this.stop();
    }
    this.#step = this.#slider.text;
    const isFirst = Number(this.#step) === this.#slider.first;
    this.#button("back").setAttribute("aria-disabled", String(isFirst));
  }

  stop() {
    if (this.isPlaying) {
      clearInterval(this.#playing);
      this.#playing = undefined;
      this.#play.textContent = this.#words.play;
      delete this.#play.dataset.playing;
      this.onStop();
    }
  }

  /** From the first step on. */
  #start() {
    this.#playing = setInterval(() => this.#playOn(), STEP_MS);
    this.#play.textContent = this.#words.stop;
    this.#play.dataset.playing = "";
    this.#show(this.#slider.first);
  }

  #playOn() {
    this.#move(1);
    if (Number(this.#step) === this.#slider.last) {
      this.stop();
    }
  }

  /**
   * Next after the last step is the first.
   *
   * @param {1 | -1} by
   */
  #move(by) {
    const step = Number(this.#slider.text) + by;
    this.#show(step > this.#slider.last ? this.#slider.first : step);
  }

  /** @param {number} step beyond the first it stays there */
  #show(step) {
    this.#step = String(Math.max(step, this.#slider.first));
    this.#slider.show(this.#step);
  }

  /** @param {Event} event any input but the button that plays, which ends it by itself */
  #stopFor(event) {
    if (event.target !== this.#play) {
      this.stop();
    }
  }

  /** @param {string} does */
  #button(does) {
    return /** @type {HTMLElement} */ (this.#place.querySelector(`[data-does="${does}"]`));
  }
}
