// What decisions say about all labels: the same numbers as pyrite/auditing/probabilities.py, which explains them.

const [SHIFT, SLOPE, LOCAL, LENGTH] = [3, 1 / 3, 1.5, 2]; // standard deviations of the prior, and its length scale
const QUANTILE = 1.959963984540054; // of the normal distribution: intervals of 95 %

const expit = (x) => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)));
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
const times = (matrix, vector) => matrix.map((row) => dot(row, vector));

/** The lower Cholesky factor of a positive definite matrix. */
function cholesky(matrix) {
  const factor = matrix.map((row) => row.map(() => 0));
  for (let i = 0; i < matrix.length; i++) {
    for (let j = 0; j <= i; j++) {
      let rest = matrix[i][j];
      for (let k = 0; k < j; k++) rest -= factor[i][k] * factor[j][k];
      factor[i][j] = i === j ? Math.sqrt(rest) : rest / factor[j][j];
    }
  }
  return factor;
}

/** The solution x of L Lᵀ x = right. */
function solve(factor, right) {
  const x = [...right];
  for (let i = 0; i < x.length; i++) {
    for (let k = 0; k < i; k++) x[i] -= factor[i][k] * x[k];
    x[i] /= factor[i][i];
  }
  for (let i = x.length - 1; i >= 0; i--) {
    for (let k = i + 1; k < x.length; k++) x[i] -= factor[k][i] * x[k];
    x[i] /= factor[i][i];
  }
  return x;
}

class Recalibration {
  /** Fit the strata (their log-odds and sizes) to the number of reviewed and of wrong labels of each. */
  constructor({ centre, size }, reviewed, wrong) {
    const prior = centre.map((x) =>
      centre.map((y) => SHIFT ** 2 + SLOPE ** 2 * x * y + LOCAL ** 2 * Math.exp(-0.5 * ((x - y) / LENGTH) ** 2)),
    );
    const fitted = mode(centre, prior, reviewed, wrong);
    const { root, factor } = curvature(fitted, prior, reviewed);
    const scaled = prior.map((row) => row.map((value, k) => root[k] * value)); // one row for each stratum
    const solved = scaled.map((row) => solve(factor, row));
    this.covariance = prior.map((row, i) => row.map((value, j) => value - dot(scaled[i], solved[j])));
    this.logOdds = increasing(fitted, size);
  }

  /** The fraction of wrong labels among `total`: `wrong` are known, `unreviewed` are left in each stratum. */
  estimate(unreviewed, wrong, total) {
    const left = unreviewed.reduce((sum, value) => sum + value, 0);
    const expected = (logOdds) => dot(unreviewed, logOdds.map(expit));
    const mean = expected(this.logOdds);
    const spread = this.logOdds.map((x, k) => unreviewed[k] * expit(x) * expit(-x));
    const direction = times(this.covariance, spread);
    const by = QUANTILE / Math.max(Math.sqrt(dot(spread, direction)), 1e-300);
    const [least, most] = [-by, by].map((step) => expected(this.logOdds.map((x, k) => x + step * direction[k])));
    const drawn = QUANTILE ** 2 * spread.reduce((sum, value) => sum + value, 0);
    const low = Math.floor(Math.max(mean - Math.sqrt((mean - least) ** 2 + drawn), 0));
    const high = Math.ceil(Math.min(mean + Math.sqrt((most - mean) ** 2 + drawn), left));
    return { value: (wrong + mean) / total, low: (wrong + low) / total, high: (wrong + high) / total };
  }
}

/** The most likely log-odds, by Newton's method with halved steps. */
function mode(centre, prior, reviewed, wrong) {
  const at = (weights) => times(prior, weights).map((correction, k) => centre[k] + correction);
  const objective = (weights) => {
    const fit = at(weights).map((x, k) => wrong[k] * softplus(-x) + (reviewed[k] - wrong[k]) * softplus(x));
    return -fit.reduce((sum, value) => sum + value, 0) - 0.5 * dot(weights, times(prior, weights));
  };
  let weights = centre.map(() => 0);
  for (let round = 0; round < 200; round++) {
    const logOdds = at(weights);
    const { root, factor } = curvature(logOdds, prior, reviewed);
    const slope = logOdds.map((x, k) => root[k] ** 2 * (x - centre[k]) + wrong[k] - reviewed[k] * expit(x));
    const solved = solve(factor, times(prior, slope).map((value, k) => root[k] * value));
    const step = slope.map((value, k) => value - root[k] * solved[k] - weights[k]);
    const now = objective(weights);
    let length = 1;
    const moved = () => weights.map((value, k) => value + length * step[k]);
    while (length > 1e-6 && objective(moved()) < now - 1e-12 * Math.abs(now)) length /= 2;
    weights = moved();
    if (Math.max(...times(prior, step).map(Math.abs)) * length < 1e-10) break;
  }
  return at(weights);
}

function curvature(logOdds, prior, reviewed) {
  const root = logOdds.map((x, k) => Math.sqrt(reviewed[k] * expit(x) * expit(-x)));
  const matrix = prior.map((row, i) => row.map((value, j) => (i === j ? 1 : 0) + root[i] * value * root[j]));
  return { root, factor: cholesky(matrix) };
}

/** The nearest values that do not decrease: neighbours that would are replaced by their weighted mean. */
function increasing(values, weights) {
  const blocks = [];
  values.forEach((value, k) => {
    let block = { mean: value, weight: weights[k], length: 1 };
    while (blocks.length && blocks.at(-1).mean >= block.mean) {
      const last = blocks.pop();
      const weight = last.weight + block.weight;
      const mean = (last.mean * last.weight + block.mean * block.weight) / weight;
      block = { mean, weight, length: last.length + block.length };
    }
    blocks.push(block);
  });
  return blocks.flatMap(({ mean, length }) => Array(length).fill(mean));
}

/** The fraction of wrong labels by a uniform random sample, with the interval of Clopper & Pearson. */
function exactEstimate(wrong, checked) {
  return {
    value: wrong / checked,
    low: wrong ? crossing((p) => 1 - atMost(wrong - 1, checked, p) > 0.025) : 0,
    high: wrong < checked ? crossing((p) => atMost(wrong, checked, p) < 0.025) : 1,
  };
}

/** The probability of `wrong` or fewer of `checked`, each wrong with the probability p. */
function atMost(wrong, checked, p) {
  let [term, sum] = [checked * Math.log1p(-p), 0];
  for (let k = 0; k <= wrong; k++) {
    sum += Math.exp(term);
    term += Math.log(((checked - k) / (k + 1)) * (p / (1 - p)));
  }
  return sum;
}

/** The probability from which on something is true. */
function crossing(holds) {
  let [low, high] = [0, 1];
  for (let round = 0; round < 60; round++) {
    const middle = (low + high) / 2;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}
